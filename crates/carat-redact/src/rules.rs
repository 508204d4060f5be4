//! What is removed from the texts of a report, for its readers.

use crate::forms::{
    FILE, FOLDERS, HOST, NAME, is_kept_variable, is_plain_value, is_private_variable, names_in,
    without_places, without_word,
};
use carat_model::{HIDDEN, is_secret_name, mask_secrets, one_line, plain, shorten};
use carat_settings::find_setting;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;

/// Facts of a machine that name the host or the user.
const IDENTITY: &[&str] = &["host", "hostname", "user", "username", "fqdn", "home", "ip"];
/// Characters of a text that stands on one line.
const LINE: usize = 500;
/// Characters of the name of a class, a library or a thread.
const NAME_LENGTH: usize = 120;

/// The readers of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Audience {
    /// The user who ran the experiment: everything but secrets.
    #[default]
    Own,
    /// Anybody: also without host, user, paths, what servers printed, and values of environment variables that may be
    /// private.
    Shared,
}

/// Whether something in a text was replaced, so that it is no longer the text that the user wrote.
pub fn has_hidden_parts(text: &str) -> bool {
    [HIDDEN, NAME, HOST, FILE, FOLDERS].iter().any(|mark| text.contains(mark))
}

/// What is removed from texts for an audience.
#[derive(Debug)]
pub(crate) struct RedactionRules {
    audience: Audience,
    /// Names of hosts and users, which may occur in any text; longer ones first.
    identities: Vec<String>,
}

impl RedactionRules {
    /// The rules where no name of a host or a user is known.
    pub(crate) fn of(audience: Audience) -> Self {
        Self { audience, identities: Vec::new() }
    }

    /// The rules for a content, which may name hosts and users anywhere. `known` are names beside those in it.
    pub(crate) fn new(content: &impl Debug, known: BTreeSet<String>, audience: Audience) -> Self {
        // Hosts and users are no secret to the user who ran it.
        if audience == Audience::Own {
            return Self::of(audience);
        }
        // The debug text has every field, so a name in any of them is found.
        let mut names = names_in(&format!("{content:?}"));
        names.extend(known);
        let mut identities: Vec<String> = names.into_iter().collect();
        // A name may contain another, whose rest would be left over.
        identities.sort_by_key(|identity| std::cmp::Reverse(identity.len()));
        Self { audience, identities }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.audience == Audience::Shared
    }

    pub(crate) fn edit(&self, text: &mut String) {
        *text = self.text(text);
    }

    /// The text for the audience; its lines stay.
    pub(crate) fn text(&self, text: &str) -> String {
        // Secrets first: what follows may cut a text where a secret is recognised.
        let masked = mask_secrets(&plain(text));
        if !self.is_shared() {
            return masked;
        }
        let mut shown = without_places(&masked);
        for identity in &self.identities {
            shown = without_word(&shown, identity, NAME);
        }
        shown
    }

    /// Makes it one short line for the audience.
    pub(crate) fn edit_line(&self, text: &mut String) {
        *text = shorten(&one_line(&self.text(text)), LINE);
    }

    /// Makes it the name of something, in one short line for the audience.
    pub(crate) fn edit_name(&self, text: &mut String) {
        *text = shorten(&one_line(&self.text(text)), NAME_LENGTH);
    }

    /// The value of a fact, which may be a secret by its name.
    pub(crate) fn value(&self, key: &str, value: &str) -> String {
        // Variables look alike, whatever table they stand in.
        let private = self.is_shared() && is_private_variable(key) && !is_plain_value(key, value);
        if is_secret_name(key) || private { HIDDEN.to_owned() } else { self.text(value) }
    }

    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str, value: &str) -> String {
        let shown = is_kept_variable(name) || is_plain_value(name, value);
        if is_secret_name(name) || self.is_shared() && !shown {
            return HIDDEN.to_owned();
        }
        self.text(value)
    }

    /// The value of a setting or of an environment variable.
    pub(crate) fn setting(&self, name: &str, value: &str) -> String {
        if find_setting(name).is_some() { self.text(value) } else { self.variable(name, value) }
    }

    /// The values by their names for the audience.
    pub(crate) fn names<V>(&self, values: BTreeMap<String, V>) -> BTreeMap<String, V> {
        let mut names = DistinctNames::default();
        values
            .into_iter()
            .map(|(name, value)| (names.name(&name, || self.text(&name)), value))
            .collect()
    }

    /// The facts of a machine for the audience.
    pub(crate) fn machine(&self, machine: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let shown = machine.iter().filter(|(key, _)| !self.is_shared() || !names_identity(key));
        shown.map(|(key, value)| (self.text(key), self.value(key, value))).collect()
    }
}

/// Whether a machine's fact of that name is the name of the host or the user.
pub(crate) fn names_identity(key: &str) -> bool {
    IDENTITY.contains(&key.to_lowercase().as_str())
}

/// Names as they are shown: each always the same, and no two equal.
#[derive(Debug, Default)]
pub(crate) struct DistinctNames {
    shown: HashMap<String, String>,
    taken: BTreeSet<String>,
}

impl DistinctNames {
    /// The shown form of a name: what `make` returns when it is first asked for, with a number if another name has it.
    pub(crate) fn name(&mut self, given: &str, make: impl FnOnce() -> String) -> String {
        if let Some(known) = self.shown.get(given) {
            return known.clone();
        }
        let base = make();
        let numbered = (2..).map(|copy| format!("{base} ({copy})"));
        let mut all = std::iter::once(base.clone()).chain(numbered);
        let name = all.find(|name| !self.taken.contains(name)).unwrap_or_default();
        self.taken.insert(name.clone());
        self.shown.insert(given.to_owned(), name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_text_names_neither_host_nor_path_nor_private_variable() {
        let known = ["build-7", "ann"].map(str::to_owned).into();
        let rules = RedactionRules::new(&"/home/annabel/x", known, Audience::Shared);
        for (given, shown) in [
            ("run on build-7 by ann or Annabel", "run on [name] by [name] or [name]"),
            ("dir = \"/home/bob/app/puma.rb\"", "dir = \"…/puma.rb\""),
            ("COMPANY_FEED=x MALLOC_ARENA_MAX=2", "COMPANY_FEED=[hidden] MALLOC_ARENA_MAX=2"),
            ("path = \"/hello\"", "path = \"/hello\""),
            ("WORKERS=10 BOOT_MB=40", "WORKERS=10 BOOT_MB=40"),
            (
                "{ WORKERS = \"10\", REDIS_URL = \"redis://r\" }",
                "{ WORKERS = \"10\", REDIS_URL = \"[hidden]\" }",
            ),
            ("PARTS = \"extend,parse\"", "PARTS = \"extend,parse\""),
            ("PORTAL_CUSTOMER=acme", "PORTAL_CUSTOMER=[hidden]"),
            ("DOOR_CODE=1234 LOGIN_PIN = 99", "DOOR_CODE=[hidden] LOGIN_PIN = [hidden]"),
        ] {
            assert_eq!(rules.text(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_redacted_text_does_not_change_when_it_is_redacted_again() {
        let rules = RedactionRules::of(Audience::Shared);
        for given in [
            "SECRET_KEY_BASE=abc123 puma",
            "?token=abc&page=2",
            "Authorization: Bearer abc.def",
            "puma --control-token s3cret -w 2",
            "COMPANY_FEED=x, DIR = \"/home/bob/app/puma.rb\"",
            "redis://ann:s3cret@db:6379/0",
            "{ REDIS_URL = \"redis://ann:s3cret@db\" }",
        ] {
            let once = rules.text(given);
            assert!(has_hidden_parts(&once) && !has_hidden_parts(given), "{once}");
            assert_eq!(rules.text(&once), once, "{given:?}");
        }
    }

    #[test]
    fn a_shared_report_keeps_a_value_that_cannot_be_a_secret() {
        let rules = RedactionRules::of(Audience::Shared);
        for (name, value, kept) in [
            ("WORKERS", "10", true),
            ("BOOT_MB", "40", true),
            ("THREADS", "25", true),
            ("GROWTH", "1.03", true),
            ("LIMIT", "123456", true),
            ("YJIT", "on", true),
            ("CACHE", "False", true),
            ("LOG_LEVEL", "info", true),
            ("ACCOUNT", "1234567", false),
            ("VERSION", "1.2.3", false),
            ("HALF", ".5", false),
            ("EMPTY", "", false),
            ("FEED", "acme", false),
            ("LOGIN_PIN", "1234", false),
            ("DOOR_CODE", "1234", false),
            ("DB_PASS", "on", false),
            ("AUTH_MODE", "test", false),
            ("KEY_SLOT", "3", false),
            ("MY_CREDENTIALS", "0", false),
            ("CSRF_TOKENS", "true", false),
        ] {
            let expected = if kept { value } else { HIDDEN };
            assert_eq!(rules.variable(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn whether_something_was_hidden_is_seen_by_any_of_the_marks() {
        for mark in ["[hidden]", "[name]", "[host]", "[file]", "…/"] {
            assert!(has_hidden_parts(&format!("a {mark} b")), "{mark}");
        }
        assert!(!has_hidden_parts("a [x] b … c/"));
    }

    #[test]
    fn of_two_names_one_of_which_contains_the_other_nothing_is_left_over() {
        let known = || ["ann", "ann-laptop"].map(str::to_owned).into();
        let rules = |audience| RedactionRules::new(&"", known(), audience);
        assert_eq!(rules(Audience::Shared).text("ann-laptop of ann"), "[name] of [name]");
        assert_eq!(rules(Audience::Own).text("ann-laptop of ann"), "ann-laptop of ann");
    }

    #[test]
    fn a_value_is_hidden_by_its_name_and_its_audience() {
        let own = RedactionRules::of(Audience::Own);
        let shared = RedactionRules::of(Audience::Shared);
        // The value of a fact, of a variable and of a setting; `-` stands for a hidden one.
        for (rules, name, given, facts) in [
            (&own, "FEED", "acme", ["acme", "acme", "acme"]),
            (&own, "DB_TOKEN", "on", ["-", "-", "-"]),
            (&own, "token", "acme", ["-", "-", "-"]),
            (&shared, "FEED", "acme", ["-", "-", "-"]),
            (&shared, "FEED", "on", ["on", "on", "on"]),
            (&shared, "feed", "acme", ["acme", "-", "-"]),
            (&shared, "DB_TOKEN", "on", ["-", "-", "-"]),
            (&shared, "token", "on", ["-", "-", "-"]),
            (&shared, "MALLOC_CONF", "acme", ["acme", "acme", "acme"]),
            (&shared, "MALLOC_CONF", "/srv/acme", ["…/[file]", "…/[file]", "…/[file]"]),
            (&shared, "arena_max", "acme", ["acme", "-", "acme"]),
        ] {
            let shown =
                [rules.value(name, given), rules.variable(name, given), rules.setting(name, given)];
            assert_eq!(shown.map(|text| text.replace(HIDDEN, "-")), facts, "{name}={given}");
        }
    }

    #[test]
    fn a_shared_report_has_no_fact_that_names_the_host_or_the_user() {
        let facts = |keys: &[&str]| -> BTreeMap<String, String> {
            keys.iter().map(|key| ((*key).to_owned(), "6.1".to_owned())).collect()
        };
        let given = facts(&["Host", "USER", "home", "hosts", "kernel"]);
        let shown = |audience| RedactionRules::of(audience).machine(&given);
        assert_eq!(shown(Audience::Own), given);
        assert_eq!(shown(Audience::Shared), facts(&["hosts", "kernel"]));
    }

    #[test]
    fn names_that_become_equal_are_numbered_and_one_thing_keeps_its_name() {
        let mut names = DistinctNames::default();
        let mut shown = |given| names.name(given, || "x".to_owned());
        assert_eq!(
            ["a", "b", "a", "c", "b"].map(&mut shown),
            ["x", "x (2)", "x", "x (3)", "x (2)"]
        );
        let values = ["one token=a", "one token=b"].map(|name| (name.to_owned(), 1));
        let shown = RedactionRules::of(Audience::Own).names(values.into());
        let keys: Vec<&String> = shown.keys().collect();
        assert_eq!(keys, ["one token=[hidden]", "one token=[hidden] (2)"]);
    }
}
