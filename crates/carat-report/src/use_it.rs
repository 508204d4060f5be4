//! How to run a server under the settings of a variant: the command to copy.

use crate::environment_format::shell_line;
use crate::text::one_line;
use carat_model::{ExperimentInfo, HIDDEN, TextPart, Variant, is_secret_name, text_parts};
use carat_settings::profiles;
use serde::Deserialize;
use std::collections::BTreeMap;

/// What `carat exec` can do of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UseIt {
    /// A line of a shell, and what it leaves out of the server's environment.
    Command { line: String, left_out: Option<String> },
    /// The variant changes more than settings, so no command of carat does all of it; says what.
    Beyond(String),
}

/// What `carat exec` applies; a variant with another key changes something else.
const APPLIED: [&str; 4] = ["name", "control", "profile", "settings"];
/// Settings that choose another Ruby or its system: where the server runs, not how.
pub(crate) const PLACES: [&str; 2] = ["root", "ruby"];
/// Stands for a command that the plan does not tell.
const UNKNOWN: &str = "COMMAND";

/// What a plan says of how its server is started.
#[derive(Default, Deserialize)]
struct Server {
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// The command that runs a server as this variant does; `None` if the plan does not tell what the variant is.
pub(crate) fn use_it(info: &ExperimentInfo, name: &str) -> Option<UseIt> {
    let plan: toml::Table = toml::from_str(&info.plan_text).ok()?;
    let variant = info.variants.iter().find(|variant| variant.name == name)?;
    let planned = plan.get("variant")?.as_array()?.iter().filter_map(toml::Value::as_table);
    let planned =
        planned.clone().find(|one| one.get("name").and_then(toml::Value::as_str) == Some(name))?;
    let others = planned.keys().filter(|key| !APPLIED.contains(&key.as_str()));
    let others: Vec<String> = others.map(|key| format!("`{key}`")).collect();
    // A command that does half of what was measured would not save what was measured.
    if !others.is_empty() {
        return Some(UseIt::Beyond(format!("{name} also changes {}", others.join(" and "))));
    }
    // All variants may run another Ruby; only a difference to the baseline counts.
    let of_baseline = info.variants.first().map(|baseline| &baseline.settings);
    let elsewhere = PLACES.into_iter().find(|place| {
        let of_baseline = of_baseline.and_then(|settings| settings.get(*place));
        variant.settings.get(*place) != of_baseline
    });
    if let Some(place) = elsewhere {
        return Some(UseIt::Beyond(format!("{name} also changes `{place}`")));
    }
    let settings = arguments(variant, planned.get("profile").and_then(toml::Value::as_str));
    // A shared report hides values, and a command with a hidden one applies something else.
    if settings.is_empty() || settings.iter().any(|word| word.contains(['[', '…'])) {
        return None;
    }
    let server = plan.get("server").and_then(|server| server.clone().try_into().ok());
    let Server { command, mut env } = server.unwrap_or_default();
    // A setting of the variant wins over the variable of the server, and is among the settings.
    env.retain(|name, _| !variant.settings.contains_key(&format!("env.{name}")));
    let line = exec_line(&env, settings, &command);
    Some(UseIt::Command { line, left_out: left_out(&env) })
}

/// The line of a shell that starts a server with these options of `carat exec`.
pub(crate) fn exec_line(
    env: &BTreeMap<String, String>,
    options: Vec<String>,
    command: &[String],
) -> String {
    let exec = ["carat", "exec"].map(str::to_owned).to_vec();
    let words =
        [env_words(env), exec, options, vec!["--".to_owned()], command_words(command)].concat();
    shell_line(&words)
}

/// The variant's settings as arguments: its profile and what it has beyond that, or every setting.
fn arguments(variant: &Variant, profile: Option<&str>) -> Vec<String> {
    let known = profile.and_then(|name| profiles().find(|(known, _)| *known == name));
    let of_profile: BTreeMap<&str, &str> =
        known.map_or_else(BTreeMap::new, |(_, settings)| settings.iter().copied().collect());
    // A profile of which a setting is missing is not what was measured.
    let has_all = of_profile.keys().all(|name| variant.settings.contains_key(*name));
    let (mut words, of_profile) = match known {
        Some((name, _)) if has_all => (vec!["--profile".to_owned(), name.to_owned()], of_profile),
        _ => (Vec::new(), BTreeMap::new()),
    };
    let settings = variant.settings.iter().filter(|(name, _)| !PLACES.contains(&name.as_str()));
    let beyond = settings.filter(|(name, value)| {
        of_profile.get(name.as_str()).is_none_or(|of_profile| !is_same(of_profile, value))
    });
    words.extend(beyond.map(|(name, value)| format!("{name}={value}")));
    words
}

/// Whether two texts of a setting have one value: a size may be in bytes or with its unit.
fn is_same(one: &str, other: &str) -> bool {
    one == other || bytes(one).is_some_and(|one| Some(one) == bytes(other))
}

/// A number of bytes, also with its unit.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// `env` and the variables of a server as a shell reads them; nothing if there are none. Left out is what the reader's own
/// server has its own of: what only a trial fills in, such as its port, and secrets.
pub(crate) fn env_words(variables: &BTreeMap<String, String>) -> Vec<String> {
    let shown =
        variables.iter().filter(|(name, value)| !is_secret(name, value) && !has_placeholder(value));
    let words: Vec<String> = shown.map(|(name, value)| format!("{name}={value}")).collect();
    if words.is_empty() { words } else { [vec!["env".to_owned()], words].concat() }
}

/// Says which secrets of a server no line shows; `None` if it has none.
fn left_out(variables: &BTreeMap<String, String>) -> Option<String> {
    // Older shared files hide the port of a trial, which is no secret.
    let secrets =
        variables.iter().filter(|(name, value)| is_secret(name, value) && name.as_str() != "PORT");
    let names: Vec<String> = secrets.map(|(name, _)| one_line(name)).collect();
    (!names.is_empty()).then(|| format!("with your own {}", names.join(" and ")))
}

fn is_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) || value.contains(HIDDEN)
}

/// The words of a server's command, without the options that only an experiment fills in; [`UNKNOWN`] if it has such places
/// elsewhere.
pub(crate) fn command_words(words: &[String]) -> Vec<String> {
    let unknown = || vec![UNKNOWN.to_owned()];
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        // Ports and folders of a trial are no part of a real command: `-p {port}`, `--bind=tcp://127.0.0.1:{port}`.
        if !has_placeholder(word) {
            kept.push(word.clone());
        } else if !word.starts_with('-') && kept.pop().is_none_or(|option| !option.starts_with('-'))
        {
            return unknown();
        }
    }
    if kept.is_empty() || kept.iter().any(|word| word.contains(['[', '…'])) {
        return unknown();
    }
    kept
}

fn has_placeholder(text: &str) -> bool {
    text_parts(text).iter().any(|part| matches!(part, TextPart::Placeholder(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn info(plan: &str, settings: &[(&str, &str)]) -> ExperimentInfo {
        let mut info =
            ExperimentInfo { plan_text: plan.into(), ..testing::info(&["default", "a"]) };
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        info.variants[1].settings = settings.collect();
        info
    }

    fn command(text: &str) -> Option<UseIt> {
        Some(UseIt::Command { line: text.into(), left_out: None })
    }

    #[test]
    fn a_variant_of_settings_alone_has_a_command_and_any_other_says_what_it_changes() {
        let server = "[server]\ncommand = ['puma', '-C', 'my puma.rb']\n[[variant]]\nname = 'a'\n";
        let profile = [
            ("allocator", "jemalloc"),
            ("fill_call_caches", "on"),
            ("main_stack", "1048576"),
            ("prepare_fork", "full"),
            ("worker_growth", "40000"),
        ];
        for (keys, settings, expected) in [
            (
                "",
                &[("arena_max", "2")][..],
                command("carat exec arena_max=2 -- puma -C 'my puma.rb'"),
            ),
            (
                "profile = 'prefork'",
                &profile,
                command("carat exec --profile prefork -- puma -C 'my puma.rb'"),
            ),
            (
                "profile = 'prefork'",
                &[("allocator", "jemalloc")],
                command("carat exec allocator=jemalloc -- puma -C 'my puma.rb'"),
            ),
            ("env = { A = '1' }", &profile, Some(UseIt::Beyond("a also changes `env`".into()))),
            ("", &[("root", "trixie")], Some(UseIt::Beyond("a also changes `root`".into()))),
            ("", &[], None),
            ("", &[("warm_paths", "[hidden]")], None),
        ] {
            let info = info(&format!("{server}{keys}"), settings);
            assert_eq!(use_it(&info, "a"), expected, "{keys}");
        }
        let with_arenas = |plan: &str| use_it(&info(plan, &[("arena_max", "2")]), "a");
        for (words, expected) in [
            ("'puma', '-p', '{port}', '-C', 'puma.rb'", "puma -C puma.rb"),
            ("'puma', '--bind=tcp://127.0.0.1:{port}'", "puma"),
            ("'serve', '{port}'", "COMMAND"),
            ("'{root}/serve'", "COMMAND"),
        ] {
            let placed = format!("[server]\ncommand = [{words}]\n[[variant]]\nname = 'a'\n");
            let line = format!("carat exec arena_max=2 -- {expected}");
            assert_eq!(with_arenas(&placed), command(&line));
        }
        let env = r#"{ RACK_ENV = "production", PORT = "{port}", API_KEY = "k", OPTIONS = '{"a": 1}', FEED = "[hidden]" }"#;
        let placed =
            format!("[server]\ncommand = ['puma']\nenv = {env}\n[[variant]]\nname = 'a'\n");
        // What only a trial has, and what is secret, is the reader's own.
        let line = r#"env 'OPTIONS={"a": 1}' RACK_ENV=production carat exec arena_max=2 -- puma"#;
        let left_out = Some("with your own API_KEY and FEED".into());
        assert_eq!(with_arenas(&placed), Some(UseIt::Command { line: line.into(), left_out }));
        assert_eq!(with_arenas("not TOML ["), None);
    }

    #[test]
    fn a_variable_of_the_server_that_a_setting_replaces_is_said_once() {
        let server = "[server]\ncommand = ['puma']\nenv = { A = '1', B = '2' }\n";
        let info = info(&format!("{server}[[variant]]\nname = 'a'\n"), &[("env.A", "3")]);
        assert_eq!(use_it(&info, "a"), command("env B=2 carat exec env.A=3 -- puma"));
    }
}
