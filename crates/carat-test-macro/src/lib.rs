//! The `#[test]` attribute of Carat's integration tests.
//!
//! The standard harness cannot report a test as skipped at run time, so the integration tests have a harness of
//! their own. Stable Rust offers no hook to collect `#[test]` functions for it: this attribute registers them.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Registers a test with `crate::harness`.
///
/// A function without arguments is one test. A function that takes a `TestRuby` is one test per Ruby.
/// `#[ignore]`, with or without a reason, works as usual; `#[should_panic]` is not supported.
#[proc_macro_attribute]
pub fn test(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    match expand(item) {
        Ok(expanded) => expanded,
        Err(reason) => format!("::core::compile_error!({reason:?});").parse().unwrap_or_default(),
    }
}

fn expand(item: TokenStream) -> Result<TokenStream, String> {
    let mut function = Vec::new();
    let mut is_ignored = false;
    let mut tokens = item.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = match (&token, tokens.peek()) {
            (TokenTree::Punct(hash), Some(TokenTree::Group(group))) if hash.as_char() == '#' => {
                attribute_name(group)
            }
            _ => String::new(),
        };
        match attribute.as_str() {
            "ignore" => {
                is_ignored = true;
                tokens.next();
            }
            "should_panic" => return Err("`#[should_panic]` is not supported here".into()),
            _ => function.push(token),
        }
    }
    let (name, takes_ruby) = signature(&function).ok_or("`#[test]` needs a function")?;
    let body = if takes_ruby { "EachRuby" } else { "Once" };
    let registration = format!(
        "::inventory::submit! {{ crate::harness::Registration {{ \
         name: ::core::concat!(::core::module_path!(), \"::\", ::core::stringify!({name})), \
         is_ignored: {is_ignored}, body: crate::harness::TestBody::{body}({name}) }} }}"
    );
    let mut expanded: TokenStream = function.into_iter().collect();
    expanded.extend(registration.parse::<TokenStream>().map_err(|error| error.to_string())?);
    Ok(expanded)
}

fn attribute_name(group: &Group) -> String {
    group.stream().into_iter().next().map(|token| token.to_string()).unwrap_or_default()
}

/// The function's name, and whether it has arguments.
fn signature(function: &[TokenTree]) -> Option<(String, bool)> {
    let keyword = function.iter().position(|token| token.to_string() == "fn")?;
    let TokenTree::Ident(name) = function.get(keyword + 1)? else { return None };
    let TokenTree::Group(arguments) = function.get(keyword + 2)? else { return None };
    (arguments.delimiter() == Delimiter::Parenthesis)
        .then(|| (name.to_string(), !arguments.stream().is_empty()))
}
