//! Names of classes for a shared report: Ruby's own stay, others become numbers.

use std::collections::HashMap;

/// Classes that every Ruby has, whose names say nothing about an application.
const RUBYS_OWN: [&str; 33] = [
    "Array",
    "BasicObject",
    "Binding",
    "Class",
    "Complex",
    "Data",
    "Encoding",
    "Enumerator",
    "Exception",
    "Fiber",
    "File",
    "Float",
    "Hash",
    "IO",
    "Integer",
    "MatchData",
    "Method",
    "Module",
    "Monitor",
    "NilClass",
    "Object",
    "Proc",
    "Queue",
    "Range",
    "Rational",
    "Regexp",
    "Set",
    "StandardError",
    "String",
    "Struct",
    "Symbol",
    "Thread",
    "Time",
];

/// Numbers instead of names, in the order in which they are asked for.
#[derive(Debug, Default)]
pub(crate) struct ClassAliases(HashMap<String, usize>);

impl ClassAliases {
    /// The name to show: Ruby's own and internal kinds as they are, `class 7` for others.
    pub(crate) fn alias(&mut self, name: &str) -> String {
        let internal = name.starts_with("(internal)") || name == "(unresolved)";
        if internal || RUBYS_OWN.binary_search(&name).is_ok() {
            return name.to_owned();
        }
        // In the order of first use, so that equal reports have equal numbers.
        let next = self.0.len() + 1;
        let number = *self.0.entry(name.to_owned()).or_insert(next);
        format!("class {number}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_rubys_own_classes_is_sorted() {
        assert!(RUBYS_OWN.is_sorted());
    }
}
