//! Names of classes for a shared report: Ruby's own stay, others become numbers.

use crate::word_list::{WordList, words};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Classes that every Ruby has, whose names say nothing about an application.
static RUBYS_OWN: WordList = LazyLock::new(|| words(include_str!("words/classes-of-ruby.txt")));

/// Numbers instead of names, in the order in which they are asked for.
#[derive(Debug, Default)]
pub(crate) struct ClassAliases(HashMap<String, usize>);

impl ClassAliases {
    /// The name to show: Ruby's own and internal kinds as they are, `class 7` for others.
    pub(crate) fn alias(&mut self, name: &str) -> String {
        let internal = name.starts_with("(internal)") || name == "(unresolved)";
        if internal || RUBYS_OWN.contains(name) {
            return name.to_owned();
        }
        // In the order of first use, so that equal reports have equal numbers.
        let next = self.0.len() + 1;
        let number = *self.0.entry(name.to_owned()).or_insert(next);
        format!("class {number}")
    }
}
