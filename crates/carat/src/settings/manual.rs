//! The catalogue as a page, so that the documentation cannot drift from the code.

use crate::settings::catalogue::{CATALOGUE, Setting};
use crate::settings::profile::{EVIDENCE, PROFILES, Profile};
use std::fmt::Write as _;

/// `docs/settings.md`: the whole catalogue as Markdown.
pub fn manual() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Each can stand in a variant's `settings` of an experiment file, in `carat.toml`, and as\n\
         `carat exec -s NAME=VALUE`. This page is made from the table in\n\
         `crates/carat/src/settings/catalogue.rs`.\n",
    );
    for setting in CATALOGUE {
        write_entry(&mut page, setting);
    }
    write_profiles(&mut page);
    page
}

fn write_profiles(page: &mut String) {
    page.push_str(
        "\n## `profile`\n\n\
         Sets of settings that were measured together, as `--profile NAME` or `profile = \"NAME\"`; what stands beside one\n\
         wins over it. [remedies.md](remedies.md) has their figures, from\n",
    );
    let evidence: Vec<String> = EVIDENCE.iter().map(|file| format!("[{file}]({file})")).collect();
    let _ = write!(page, "{}.\n\n", evidence.join(", "));
    for Profile { name, settings, what } in PROFILES {
        let pairs: Vec<String> =
            settings.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        let _ = writeln!(page, "- **`{name}`**: {}. {what}", pairs.join(", "));
    }
}

fn write_entry(page: &mut String, setting: &Setting) {
    let Setting { name, values, default, does, costs, verify, .. } = setting;
    let since = setting.since.map(|ruby| format!(" · Ruby {ruby}")).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n## `{name}`\n\n{does}\n\n\
         - **Values:** {} (default: {default}){since}\n\
         - **Costs:** {costs}\n\
         - **Verified by:** {verify}\n",
        values.describe(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_the_catalogue() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, manual()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == manual(), "run the test again with BLESS=1 to write docs/settings.md");
    }
}
