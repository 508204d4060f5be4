//! Pages that the files of an app name.

use crate::input::app::text::{argument, literal, statements};

/// Controllers of Rails itself: of the health check, of a manifest.
const OF_RAILS: &str = "rails/";
/// That of the health check.
const HEALTH: &str = "rails/health#";

/// A path that answers, if the routes of a Rails app name one.
pub(super) fn rails_page(routes: &str) -> Option<String> {
    let lines = outermost(routes);
    // A root route is certain to be a page; others can need a parameter or a login.
    if lines.clone().any(|line| argument(line, "root").is_some()) {
        return Some("/".into());
    }
    lines
        .filter(|line| !line.contains(OF_RAILS))
        .find_map(|line| fixed(line).or_else(|| list(line)))
}

/// The path that answers once a Rails app has booted.
pub(super) fn health_check(routes: &str) -> Option<String> {
    outermost(routes).filter(|line| line.contains(HEALTH)).find_map(fixed)
}

/// A path of the `get '/x' do` of Sinatra and its like.
pub(super) fn sinatra_page(text: &str) -> Option<String> {
    statements(text).find_map(fixed)
}

/// The statements of the block of `draw`: within others a path begins with that of the block.
fn outermost(routes: &str) -> impl Iterator<Item = &str> + Clone {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let inside = routes
        .lines()
        .skip_while(|line| !line.contains(".draw"))
        .skip(1)
        .filter(|line| !line.trim_start().is_empty() && !line.trim_start().starts_with('#'));
    let first = inside.clone().next().map_or(0, indent);
    inside.filter(move |line| indent(line) == first).map(str::trim)
}

/// The path of `get '/x' do`, `get "x", to:` and the like, without parameters.
fn fixed(line: &str) -> Option<String> {
    let path = literal(argument(line, "get")?)?;
    // A path with a parameter would be asked for literally.
    let is_fixed = path.chars().all(|c| c.is_ascii_alphanumeric() || "/-_.".contains(c));
    is_fixed.then(|| format!("/{}", path.trim_start_matches('/')))
}

/// The list of `resources :posts`.
fn list(line: &str) -> Option<String> {
    let rest = argument(line, "resources")?.strip_prefix(':')?;
    let (name, options) = rest.split_at(
        rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len()),
    );
    let has_list = match (options.contains("only:"), options.contains("except:")) {
        (true, _) => options.contains("index"),
        (_, true) => !options.contains("index"),
        _ => true,
    };
    // With a path of its own, another module or several names in one line it is not certain.
    let is_plain = !options.contains("path:") && !options.starts_with(", :");
    (has_list && is_plain).then(|| format!("/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_rails_app_is_its_root_or_the_first_that_needs_no_parameter_and_never_the_health_check()
     {
        let up = "get \"up\" => \"rails/health#show\", as: :rails_health_check\n  get \"manifest\" => \"rails/pwa#manifest\"";
        for (routes, expected) in [
            ("root \"posts#index\"", Some("/")),
            ("root(to: 'a#b')", Some("/")),
            ("# root \"posts#index\"", None),
            ("resources :posts", Some("/posts")),
            ("resources :posts, only: [:show]\n  resources :tags do", Some("/tags")),
            ("resources :posts, only: %i[index show]", Some("/posts")),
            ("resources :posts, except: :index", None),
            ("resources :posts, path: 'p'", None),
            ("get 'a/:id', to: 'a#b'\n  get 'about', to: 'a#about'", Some("/about")),
            (
                "namespace :admin do\n    root 'x#y'\n    get 'users'\n    resources :logs\n  end",
                None,
            ),
        ] {
            let text = format!(
                "Rails.application.routes.draw do\n  # Health\n\n  {up}\n  {routes}\nend\n"
            );
            assert_eq!(rails_page(&text).as_deref(), expected, "{routes}");
            assert_eq!(health_check(&text).as_deref(), Some("/up"));
        }
        assert_eq!(rails_page("Rails.application.routes.draw do\nend\n"), None);
        assert_eq!(health_check("Rails.application.routes.draw do\n  root 'a#b'\nend\n"), None);
    }
}
