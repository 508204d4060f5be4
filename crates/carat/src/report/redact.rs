//! Removes what must not be shown: control characters and secrets always; in a shared report also host and user
//! names, paths, log lines, and the values of environment variables beyond an allow-list, unless a value is a short
//! number or one of a few words and its name suggests no secret.

use crate::core::recording::Recording;
use crate::core::{ClassAmount, Ledger, LoadReport, Results};
use crate::report::class_aliases::ClassAliases;
use crate::report::text::{one_line, plain, shorten};
use std::collections::{BTreeMap, BTreeSet};

/// The readers of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Audience {
    /// The user who ran the experiment: everything but secrets.
    #[default]
    Own,
    /// Anybody: also without host, user, paths, log lines, and values of environment variables that may be private.
    Shared,
}

/// Machine facts that name the host or the user.
const IDENTITY: &[&str] = &["host", "hostname", "user", "username", "fqdn", "home", "ip"];

/// A name that contains one of these has a secret value.
const SECRET_NAMES: &[&str] = &[
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "access-key",
    "private_key",
    "private-key",
    "credential",
    "master_key",
    "master-key",
    "cookie",
    "authorization",
    "session_key",
    "signing_key",
    "encryption_key",
    "_dsn",
];

/// Prefixes of well-known tokens.
const TOKEN_STARTS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "sk-ant-",
    "sk-proj-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "eyJ",
    "npm_",
    "rubygems_",
    "SG.",
    "shpat_",
    "dop_v1_",
];

/// Environment variables whose values a shared report keeps.
const ENV_KEPT: &[&str] = &[
    "MALLOC_",
    "RUBY_",
    "RUBYOPT",
    "LD_PRELOAD",
    "WEB_CONCURRENCY",
    "RAILS_ENV",
    "RACK_ENV",
    "RAILS_MAX_THREADS",
    "RAILS_MIN_THREADS",
    "GLIBC_TUNABLES",
    "MIMALLOC_",
    "TCMALLOC_",
    "LANG",
    "LC_",
    "PORT",
    "CARAT_",
    "PUMA_",
    // Selects what the server of workloads/extend does.
    "PARTS",
];

/// A variable whose name contains one of these may have a secret value, however short.
const SUSPECT_NAMES: &[&str] =
    &["PASS", "SECRET", "TOKEN", "KEY", "PIN", "CODE", "AUTH", "CREDENTIAL"];

/// Values that cannot be a secret.
const PLAIN_WORDS: &[&str] = &[
    "true",
    "false",
    "on",
    "off",
    "yes",
    "no",
    "production",
    "development",
    "staging",
    "test",
    "debug",
    "info",
    "warn",
    "error",
    "fatal",
];

/// Digits of a number that is too short to be a secret.
const PLAIN_DIGITS: usize = 6;

const HIDDEN: &str = "[hidden]";
/// Stands for the name of the host or the user.
const NAME: &str = "[name]";
/// Stands for the folders of a path.
const FOLDERS: &str = "…/";

/// Whether something in a text was replaced, so that it is no longer the text that the user wrote.
pub(crate) fn has_hidden_parts(text: &str) -> bool {
    [HIDDEN, NAME, FOLDERS].iter().any(|mark| text.contains(mark))
}

/// The results for that audience.
pub(crate) fn prepare(results: &Results, audience: Audience) -> Results {
    let rules = RedactionRules::new(results, audience);
    let mut shown = results.clone();
    let names = rules.distinct_names(results);
    let info = &mut shown.info;
    rules.edit(&mut info.name);
    info.about = info.about.take().map(|about| rules.text(&about));
    rules.edit(&mut info.plan_text);
    rules.edit(&mut info.plan_hash);
    rules.edit(&mut info.primary);
    info.guards = rules.names(std::mem::take(&mut info.guards));
    for variant in &mut info.variants {
        variant.name = rules.name(&names, &variant.name);
        for control in &mut variant.controls {
            *control = rules.name(&names, control);
        }
        variant.settings = variant
            .settings
            .iter()
            .map(|(key, value)| (rules.text(key), rules.value(key, value)))
            .collect();
    }
    shown.warnings.iter_mut().for_each(|warning| rules.edit(warning));
    for conclusion in &mut shown.conclusions {
        conclusion.variant = rules.name(&names, &conclusion.variant);
        rules.edit(&mut conclusion.metric);
    }
    for compared in &mut shown.controls {
        compared.control = rules.name(&names, &compared.control);
        compared.conclusion.variant = rules.name(&names, &compared.conclusion.variant);
        rules.edit(&mut compared.conclusion.metric);
    }
    for curve in &mut shown.curves {
        curve.variant = rules.name(&names, &curve.variant);
        rules.edit(&mut curve.metric);
    }
    let moments = shown.moments.iter_mut().map(|compared| &mut compared.variant);
    let of_memory = moments.chain(shown.least.iter_mut().map(|distance| &mut distance.variant));
    of_memory.for_each(|variant| *variant = rules.name(&names, variant));
    edit_machines(&rules, &names, &mut shown);
    for growth in &mut shown.growth {
        growth.variant = rules.name(&names, &growth.variant);
    }
    edit_classes(&rules, &names, &mut shown);
    for trial in &mut shown.trials {
        trial.variant = rules.name(&names, &trial.variant);
        rules.edit(&mut trial.id);
        trial.machine = rules.machine(&trial.machine);
        trial.notes.iter_mut().for_each(|note| rules.edit(note));
        for ledger in trial.samples.iter_mut().filter_map(|sample| sample.ledger.as_mut()) {
            edit_ledger(&rules, ledger);
        }
        trial.detail = trial.detail.take().map(|detail| rules.text(&detail));
        trial.metrics = rules.names(std::mem::take(&mut trial.metrics));
        trial.load.iter_mut().for_each(|load| edit_load(&rules, load));
        match audience {
            Audience::Own => rules.edit(&mut trial.log_tail),
            Audience::Shared => trial.log_tail.clear(),
        }
    }
    shown
}

fn edit_machines(rules: &RedactionRules, names: &BTreeMap<String, String>, shown: &mut Results) {
    if let Some(fleet) = &mut shown.info.fleet {
        rules.edit(&mut fleet.binary);
        fleet.types.iter_mut().for_each(|name| rules.edit(name));
    }
    for compared in &mut shown.machines {
        compared.variant = rules.name(names, &compared.variant);
        rules.edit(&mut compared.metric);
        compared.types.iter_mut().for_each(|of| rules.edit(&mut of.machine_type));
    }
}

/// The names of classes. In a shared report a class has the same number everywhere.
fn edit_classes(rules: &RedactionRules, variants: &BTreeMap<String, String>, shown: &mut Results) {
    for compared in &mut shown.classes {
        compared.variant = rules.name(variants, &compared.variant);
    }
    let mut aliases = ClassAliases::default();
    let mut name = |given: &str| match rules.audience {
        Audience::Own => rules.text(given),
        Audience::Shared => aliases.alias(given),
    };
    for class in shown.classes.iter_mut().flat_map(|compared| &mut compared.classes) {
        class.class = name(&class.class);
    }
    let samples = shown.trials.iter_mut().flat_map(|trial| &mut trial.samples);
    for census in samples.filter_map(|sample| sample.census.as_mut()) {
        let mut classes = BTreeMap::new();
        for (given, amount) in std::mem::take(&mut census.classes) {
            // Two names may become one when a secret in them is masked.
            let sum = classes.entry(name(&given)).or_insert(ClassAmount::NONE);
            *sum = sum.plus(amount);
        }
        census.classes = classes;
    }
}

/// A recording for that audience.
pub(crate) fn prepare_recording(recording: &Recording, audience: Audience) -> Recording {
    let rules = RedactionRules::of(audience);
    let mut shown = recording.clone();
    rules.edit(&mut shown.info.schema);
    rules.edit(&mut shown.info.what);
    shown.info.command.iter_mut().for_each(|word| rules.edit(word));
    if let Some(end) = &mut shown.end {
        rules.edit(&mut end.ended);
        end.warnings.iter_mut().for_each(|warning| rules.edit(warning));
        end.classes.iter_mut().for_each(|one| rules.edit(&mut one.class));
        if audience == Audience::Shared {
            let mut aliases = ClassAliases::default();
            end.classes.iter_mut().for_each(|one| one.class = aliases.alias(&one.class));
        }
        if let Some(load) = &mut end.load {
            rules.edit(&mut load.url);
            let files = [&mut load.plan.scenario, &mut load.plan.replay];
            files.into_iter().flatten().for_each(|file| rules.edit(file));
            load.report.iter_mut().for_each(|report| edit_load(&rules, report));
        }
    }
    if let Some(ledger) = &mut shown.ledger {
        edit_ledger(&rules, ledger);
    }
    shown
}

/// A ledger and the description of its server for that audience.
pub(crate) fn prepare_ledger(
    server: &str,
    ledger: &Ledger,
    audience: Audience,
) -> (String, Ledger) {
    let rules = RedactionRules::of(audience);
    let mut shown = ledger.clone();
    edit_ledger(&rules, &mut shown);
    (rules.text(server), shown)
}

fn edit_load(rules: &RedactionRules, load: &mut LoadReport) {
    for flag in &mut load.flags {
        rules.edit(&mut flag.code);
        rules.edit(&mut flag.message);
    }
    for route in &mut load.routes {
        rules.edit(&mut route.route);
        route.scenario.iter_mut().for_each(|name| rules.edit(name));
    }
    for failure in &mut load.failures {
        rules.edit(&mut failure.route);
        // A server may answer with anything, also with what it knows of its users.
        failure.body = failure
            .body
            .take()
            .filter(|_| rules.audience == Audience::Own)
            .map(|text| rules.text(&text));
    }
    load.metrics = rules.names(std::mem::take(&mut load.metrics));
    load.errors_by = rules.names(std::mem::take(&mut load.errors_by));
}

fn edit_ledger(rules: &RedactionRules, ledger: &mut Ledger) {
    ledger.unread.iter_mut().for_each(|unread| rules.edit(unread));
    ledger.from_status.iter_mut().for_each(|process| rules.edit(&mut process.title));
    for process in &mut ledger.processes {
        rules.edit(&mut process.title);
        for (name, value) in &mut process.environment {
            *value = rules.value(name, value);
            rules.edit(name);
        }
        let allocator = &mut process.allocator;
        rules.edit(&mut allocator.evidence);
        allocator.active.iter_mut().chain(&mut allocator.loaded).for_each(|text| rules.edit(text));
        process.ruby.iter_mut().for_each(|text| rules.edit(text));
    }
}

/// What is removed from texts for an audience.
pub(crate) struct RedactionRules {
    audience: Audience,
    /// Names of the host and the user, which may occur in any text.
    identities: Vec<String>,
}

impl RedactionRules {
    /// The rules where no name of a host or a user is known.
    pub(crate) fn of(audience: Audience) -> Self {
        Self { audience, identities: Vec::new() }
    }

    fn new(results: &Results, audience: Audience) -> Self {
        let facts = results.trials.iter().flat_map(|trial| &trial.machine);
        let named = facts.filter(|(key, value)| names_identity(key) && value.len() > 2);
        let distinct: BTreeSet<String> = named.map(|(_, value)| value.clone()).collect();
        let mut identities: Vec<String> = distinct.into_iter().collect();
        identities.sort_by_key(|identity| std::cmp::Reverse(identity.len()));
        Self { audience, identities }
    }

    pub(crate) fn edit(&self, text: &mut String) {
        *text = self.text(text);
    }

    fn text(&self, text: &str) -> String {
        let masked = secrets(&plain(text));
        match self.audience {
            Audience::Own => masked,
            Audience::Shared => self.anonymous(&masked),
        }
    }

    /// A value that may be a secret by its name.
    pub(crate) fn value(&self, key: &str, value: &str) -> String {
        let private = self.audience == Audience::Shared
            && is_private_variable(key)
            && !is_plain_value(key, value);
        if is_secret_name(key) || private {
            return HIDDEN.to_owned();
        }
        self.text(value)
    }

    fn name(&self, names: &BTreeMap<String, String>, given: &str) -> String {
        names.get(given).cloned().unwrap_or_else(|| self.text(given))
    }

    fn names<V>(&self, values: BTreeMap<String, V>) -> BTreeMap<String, V> {
        values.into_iter().map(|(name, value)| (self.text(&name), value)).collect()
    }

    fn machine(&self, machine: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        machine
            .iter()
            .filter(|(key, _)| self.audience == Audience::Own || !names_identity(key))
            .map(|(key, value)| (self.text(key), self.value(key, value)))
            .collect()
    }

    fn anonymous(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for identity in &self.identities {
            out = out.replace(identity.as_str(), NAME);
        }
        variables(&short_paths(&out))
    }

    /// The names of variants, with a number added if redaction would make two equal.
    fn distinct_names(&self, results: &Results) -> BTreeMap<String, String> {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        for variant in &results.info.variants {
            let base = shorten(&one_line(&self.text(&variant.name)), 120);
            let mut name = base.clone();
            let mut copy = 2;
            while names.values().any(|taken| *taken == name) {
                name = format!("{base} ({copy})");
                copy += 1;
            }
            names.insert(variant.name.clone(), name);
        }
        names
    }
}

fn names_identity(key: &str) -> bool {
    IDENTITY.contains(&key.to_lowercase().as_str())
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// An upper-case name, like that of an environment variable, that is not on the allow-list.
fn is_private_variable(name: &str) -> bool {
    let looks_like_one = name.len() > 2
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && name.contains(|c: char| c.is_ascii_uppercase());
    looks_like_one && !ENV_KEPT.iter().any(|kept| name.starts_with(kept))
}

/// Whether a variable's value says something about the run and nothing about its owner: `WORKERS=10`, `YJIT=on`.
fn is_plain_value(name: &str, value: &str) -> bool {
    let name = name.to_uppercase();
    let suspect = SUSPECT_NAMES.iter().any(|part| name.contains(part));
    !suspect && (is_short_number(value) || PLAIN_WORDS.contains(&value.to_lowercase().as_str()))
}

fn is_short_number(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    digits <= PLAIN_DIGITS && all_digits(whole) && all_digits(fraction)
}

/// The text with secrets masked: keys in PEM, passwords in URLs, values of secret names, well-known tokens.
fn secrets(text: &str) -> String {
    let text = mask_pem(text);
    let text = mask_credentials(&text);
    let text = mask_values(&text, is_secret_name, |_, _| false);
    mask_tokens(&text)
}

fn variables(text: &str) -> String {
    mask_values(text, is_private_variable, is_plain_value)
}

fn mask_pem(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("-----BEGIN ") {
        let end = rest[start..]
            .find("-----END ")
            .and_then(|end| {
                rest[start + end + 9..].find("-----").map(|dash| start + end + 9 + dash + 5)
            })
            .unwrap_or(rest.len());
        out.push_str(&rest[..start]);
        out.push_str(HIDDEN);
        rest = &rest[end..];
    }
    out + rest
}

/// Masks the credentials in `redis://user:password@host`.
fn mask_credentials(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(place) = rest.find("://") {
        let (before, after) = rest.split_at(place + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| {
                c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '<' | '>' | '?' | '#')
            })
            .unwrap_or(after.len());
        if let Some(at) = after[..end].rfind('@') {
            out.push_str(HIDDEN);
            rest = &after[at..];
        } else {
            rest = after;
        }
    }
    out + rest
}

/// Masks the value in `NAME=value`, `NAME = "value"`, `"NAME": "value"`, `--name value` and `Name: Bearer value`, if
/// the name `hides` its values and does not show this one.
fn mask_values(text: &str, hides: fn(&str) -> bool, shows: fn(&str, &str) -> bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_name_character) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_name_character(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        out.push_str(name);
        rest = after;
        let plain_name = name.trim_start_matches('-');
        if !hides(plain_name) {
            continue;
        }
        if let Some((separator, length)) = value_after(name, after) {
            let (value, end) = after[separator..].split_at(length);
            out.push_str(&after[..separator]);
            out.push_str(if shows(plain_name, value) { value } else { HIDDEN });
            rest = end;
        }
    }
    out + rest
}

fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Lengths of the separator (with an opening quote) and of the value after a name; `None` if no value follows.
fn value_after(name: &str, after: &str) -> Option<(usize, usize)> {
    let trimmed = after.trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
    let assigned = trimmed.strip_prefix("=>").or_else(|| trimmed.strip_prefix(['=', ':']));
    let value = match assigned {
        Some(value) => value.trim_start_matches([' ', '\t']),
        None if name.starts_with("--") && after.starts_with(' ') => after.trim_start(),
        None => return None,
    };
    let quoted = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (value, end) = match quoted {
        Some(quote) => {
            let inner = &value[1..];
            (inner, inner.find(quote).unwrap_or(inner.len()))
        }
        None => {
            // A hidden value contains a bracket, which would end it too early when the text is redacted again.
            let known = ["Bearer ", "Basic ", "Token ", HIDDEN];
            let skip = known.iter().find(|s| value.starts_with(**s)).map_or(0, |found| found.len());
            (value, skip + value[skip..].find(ends_value).unwrap_or(value.len() - skip))
        }
    };
    (end > 0).then(|| (after.len() - value.len(), end))
}

fn ends_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | '&' | '}' | ']')
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn ends_path(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '"' | '\'' | ',' | ';' | ':' | ')' | ']' | '}' | '<' | '>' | '`')
}

fn mask_tokens(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_token_character) {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c| !is_token_character(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let known = TOKEN_STARTS.iter().any(|begin| token.starts_with(begin) && token.len() >= 16);
        out.push_str(if known { HIDDEN } else { token });
        rest = after;
    }
    out + rest
}

/// Shortens absolute paths to their last part: `/home/ann/app/puma.rb` becomes `…/puma.rb`.
fn short_paths(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = rest.find(ends_path).unwrap_or(rest.len());
        let starts_path =
            matches!(c, '/' | '~') && !is_name_character(before) && !matches!(before, '/' | ':');
        let path = &rest[..end];
        if starts_path && path.trim_end_matches('/').matches('/').count() > 1 {
            let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            out.push_str(FOLDERS);
            out.push_str(last);
            before = 'x';
            rest = &rest[end..];
            continue;
        }
        out.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_syntax() {
        for (given, shown) in [
            ("redis://ann:s3cret@db:6379/0", "redis://[hidden]@db:6379/0"),
            ("postgres://u:p@ss@db/x", "postgres://[hidden]@db/x"),
            ("SECRET_KEY_BASE=abc123 puma", "SECRET_KEY_BASE=[hidden] puma"),
            ("secret_key_base = \"a b c\"\nport = 1", "secret_key_base = \"[hidden]\"\nport = 1"),
            ("{\"api_key\": \"xyz\", \"n\": 1}", "{\"api_key\": \"[hidden]\", \"n\": 1}"),
            ("puma --control-token s3cret -w 2", "puma --control-token [hidden] -w 2"),
            ("Authorization: Bearer abc.def", "Authorization: [hidden]"),
            ("using ghp_0123456789abcdefghij now", "using [hidden] now"),
            ("password: hunter2, user: ann", "password: [hidden], user: ann"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx",
                "[hidden]\nx",
            ),
            ("?token=abc&page=2", "?token=[hidden]&page=2"),
            ("3 tokens were left", "3 tokens were left"),
            ("http://127.0.0.1:9292/hello", "http://127.0.0.1:9292/hello"),
        ] {
            assert_eq!(secrets(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_shared_text_names_neither_host_nor_path_nor_private_variable() {
        let rules = RedactionRules {
            audience: Audience::Shared,
            identities: vec!["build-7".into(), "ann".into()],
        };
        for (given, shown) in [
            ("run on build-7 by ann", "run on [name] by [name]"),
            ("dir = \"/home/bob/app/puma.rb\"", "dir = \"…/puma.rb\""),
            ("LD_PRELOAD=/usr/lib/libjemalloc.so.2", "LD_PRELOAD=…/libjemalloc.so.2"),
            ("COMPANY_FEED=x MALLOC_ARENA_MAX=2", "COMPANY_FEED=[hidden] MALLOC_ARENA_MAX=2"),
            ("path = \"/hello\"", "path = \"/hello\""),
            ("WORKERS=10 BOOT_MB=40", "WORKERS=10 BOOT_MB=40"),
            (
                "{ WORKERS = \"10\", REDIS_URL = \"redis://r\" }",
                "{ WORKERS = \"10\", REDIS_URL = \"[hidden]\" }",
            ),
            ("PARTS = \"extend,parse\"", "PARTS = \"extend,parse\""),
            ("DOOR_CODE=1234 LOGIN_PIN = 99", "DOOR_CODE=[hidden] LOGIN_PIN = [hidden]"),
            ("http://127.0.0.1:80/a/b", "http://127.0.0.1:80/a/b"),
        ] {
            assert_eq!(rules.text(given), shown, "{given:?}");
        }
    }

    #[test]
    fn a_redacted_text_does_not_change_when_it_is_redacted_again() {
        let rules = RedactionRules { audience: Audience::Shared, identities: Vec::new() };
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
        let rules = RedactionRules { audience: Audience::Shared, identities: Vec::new() };
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
            assert_eq!(rules.value(name, value), expected, "{name}={value}");
        }
    }
}
