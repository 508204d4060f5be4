//! The catalogue as a page, so that the documentation cannot differ from the code.

use crate::catalogue::definitions;
use crate::profile::{EVIDENCE, PROFILES, Profile};
use crate::setting::SettingDefinition;
use carat_model::shorten;
use carat_ruby::extension::{UNFIT_EXTENSIONS, UnfitExtension};
use carat_ruby::version::V2_7;
use std::fmt::Write as _;

/// `docs/reference/settings.md`: the whole catalogue as Markdown.
pub fn manual() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Each can be written in a variant's `settings` of an experiment file, in `carat.toml`, and as\n\
         `carat exec -s NAME=VALUE`. This page is generated from the types in\n\
         `crates/carat-settings/src/catalogue`.\n",
    );
    for setting in definitions() {
        write_entry(&mut page, setting);
    }
    write_delivery(&mut page);
    write_profiles(&mut page);
    write_extensions(&mut page);
    page
}

/// Columns of the values in [`list`], and characters of a line's text.
const VALUES: usize = 26;
const EFFECT: usize = 60;

/// Words of the manual about values, and shorter ones.
const BRIEF: [(&str, &str); 4] = [
    ("`", ""),
    ("a whole number from ", ""),
    ("a number from ", ""),
    ("bytes, also as 512k, 16m or 1g", "bytes, such as 512k or 16m"),
];

/// A line for every setting and every profile: name, values, and the first sentence about it; `is_short`: as much of each as a
/// screen has room for.
pub fn list(is_short: bool) -> String {
    let settings = definitions().map(|one| (one.name.to_owned(), (one.accepted)(), one.does));
    let profiles =
        PROFILES.iter().map(|one| (format!("--profile {}", one.name), pairs(one), one.what));
    let rows: Vec<(String, String, &str)> = settings.chain(profiles).collect();
    let widest = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, values, what) in rows {
        let (values, what) = (brief(values), plain(what));
        let (values, what) = match is_short {
            true => (shorten(&values, VALUES), clause(&what)),
            false => (values, first_sentence(&what).to_owned()),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<widest$}  {values:<VALUES$}  {what}");
    }
    text
}

/// Every setting: its name, what it accepts, and its effect in a sentence.
pub fn summaries() -> impl Iterator<Item = (&'static str, String, String)> {
    definitions().map(|one| (one.name, (one.accepted)(), clause(&plain(one.does))))
}

/// What a setting accepts, in fewer words than in the manual.
fn brief(values: String) -> String {
    let text = BRIEF.iter().fold(values, |text, (long, brief)| text.replace(long, brief));
    // A bound alone reads as the only value.
    if text.parse::<u64>().is_ok() { format!("{text} or more") } else { text }
}

/// Markdown without its marks: a terminal has neither code nor links.
fn plain(text: &str) -> String {
    let mut plain = text.replace('`', "");
    while let Some((before, label, after)) = first_link(&plain) {
        plain = [before, label, after].concat();
    }
    plain
}

/// What stands before, in and behind the first `[label](address)`.
fn first_link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (label, rest) = rest.split_once("](")?;
    Some((before, label, rest.split_once(')')?.1))
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// The first sentence, or as much of it as fits, up to the end of a clause where there is one.
fn clause(text: &str) -> String {
    let sentence = first_sentence(text);
    if sentence.chars().count() <= EFFECT {
        return sentence.to_owned();
    }
    let short: String = sentence.chars().take(EFFECT).collect();
    // A clause that ends early would leave nearly nothing of the line.
    let end = short.rfind([',', ';', ':', '(']).filter(|end| *end > EFFECT / 3);
    match (end, short.rfind(' ')) {
        (Some(end), _) => short[..end].trim_end().to_owned(),
        (None, Some(word)) => format!("{} …", &short[..word]),
        (None, None) => short,
    }
}

fn pairs(profile: &Profile) -> String {
    let pairs = profile.settings.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn write_delivery(page: &mut String) {
    page.push_str(
        "\n## Which processes have the settings\n\n\
         The processes that serve: those that listen, and what was forked from them. Where nothing listens, as with Sidekiq, it is\n\
         the Rubies that started no other Ruby. A launcher, such as `passenger start`, `thin start -d`, `foreman` or any Ruby that\n\
         starts a Ruby and does not listen itself, hands all settings on to the Rubies that it starts, and to nothing else; see\n\
         [what Carat can read and change](../explanation/security.md#what-it-changes). `carat compare` starts servers the same way.\n\n\
         `carat exec --verify` and the notes of a trial judge the processes that serve, not their launcher. If one of them lacks a\n\
         setting, the message names it: `NOT APPLIED: lost in pid 123 (…)`. Where no process serves within a minute, it says\n\
         `not verified` and why. A Ruby that does not listen is judged once it has worked for ten seconds.\n\n\
         What is applied is said as soon as the server has listened for three seconds. A setting that waits for a fork or for the end\n\
         of the boot is `not applied yet` until then, and within a minute it is applied or the message says what did not come: a server of\n\
         one process forks no worker, so there is nothing to apply `prepare_fork` to. Of a server other than Puma, Unicorn, Pitchfork and a Rails\n\
         application that is loaded before the fork, `prepare_fork` only `seems applied` until a minute has shown no worker that loads the\n\
         application itself.\n",
    );
}

fn write_extensions(page: &mut String) {
    page.push_str(
        "\n## Extensions that are not compacted\n\n\
         A compaction moves objects, and a C extension that keeps one where the GC cannot see it uses the old address\n\
         afterwards. If one of these is loaded, `compact` is not applied and `prepare_fork` is applied without its\n\
         compaction; `carat exec --verify`, the server's stderr and the notes of a trial name the extension.\n\
         Where all hidden objects are of one known class, as with redcarpet, the runtime pins them right before its\n\
         compaction instead, and compacts: they stay where they are, and are never freed. `compact = \"auto\"` ends when\n\
         one of these is loaded, pinned or not, because Ruby itself decides when to compact then.\n\
         `trust_extensions = \"on\"` compacts all the same, and pins nothing.\n\n\
         | gem | versions | keeps | pinned | source |\n|---|---|---|---|---|\n",
    );
    for UnfitExtension { gem, fixed_in, since_ruby, keeps, hidden_class, source, .. } in
        UNFIT_EXTENSIONS
    {
        let mut versions = fixed_in.map_or("all".to_owned(), |fixed| format!("before {fixed}"));
        // 2.7 is the oldest Ruby that Carat knows, so it is no condition.
        if *since_ruby > V2_7 {
            let _ = write!(versions, ", on Ruby {since_ruby} and later");
        }
        let pinned = hidden_class.map_or("no".to_owned(), |class| format!("`{class}`"));
        let _ = writeln!(page, "| `{gem}` | {versions} | {keeps} | {pinned} | {source} |");
    }
    page.push_str(REDCARPET);
}

/// How the row of redcarpet was tested.
const REDCARPET: &str = "
redcarpet was tested with Debian's packages: 200 renderers, a compaction that moves everything
(`GC.verify_compaction_references`) or `GC.compact` after holes were made, then rendering again.

| Ruby, redcarpet | a renderer of redcarpet's own | a subclass that overrides a method |
|---|---|---|
| 2.7.4, 3.5.1 | the same text | the same text |
| 3.1.2, 3.5.1 | the same text | the same text |
| 3.3.8, 3.6.0 | the same text | `NoMethodError`: another object lies at the old address |

`tests/it/extensions.rs` repeats it. A `Markdown` object refers to its renderer by an instance variable, which pins
the renderer on Ruby 2.7 and 3.1 and no longer does on 3.3; 3.2 was not tested and counts as 3.3. Only renderers that
exist before the compaction break, so those are pinned: with them the same text is rendered on 3.3 too. The other rows
follow their sources and were not tested.
";

fn write_profiles(page: &mut String) {
    page.push_str(
        "\n## `profile`\n\n\
         Sets of settings for one purpose, as `--profile NAME` or `profile = \"NAME\"`; explicit settings win over it.\n\
         [remedies](../evidence/remedies.md) has the figures of those that were measured here, from\n",
    );
    let evidence: Vec<String> =
        EVIDENCE.iter().map(|file| format!("[{file}](../evidence/{file})")).collect();
    let _ = writeln!(page, "{}.", evidence.join(", "));
    for Profile { name, settings, what, needs, costs, undone: _ } in PROFILES {
        let pairs: Vec<String> =
            settings.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        let _ = write!(
            page,
            "\n**`{name}`**: {}. {what}\n\n- **Needs:** {needs}.\n- **Costs:** {costs}.\n",
            pairs.join(", ")
        );
    }
}

fn write_entry(page: &mut String, setting: &SettingDefinition) {
    let SettingDefinition { name, default, does, costs, verified_by, accepted, .. } = setting;
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "\n## `{name}`\n\n{does}\n\n\
         - **Values:** {} (default: {default}){}\n\
         - **Costs:** {costs}\n\
         - **Verified by:** {verified_by}\n",
        accepted(),
        versions(setting),
    );
}

/// The versions of Ruby on which a setting and its values have an effect.
fn versions(setting: &SettingDefinition) -> String {
    let Some(since) = setting.since else { return String::new() };
    let mut text = match setting.until {
        Some(until) => format!(" · Ruby {since} to {until}"),
        None => format!(" · Ruby {since} and later"),
    };
    for (value, since) in setting.values_since {
        let _ = write!(text, ", `{value}` {since} and later");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_one_line_for_every_setting_and_every_profile() {
        let (text, whole) = (list(true), list(false));
        for text in [&text, &whole] {
            assert_eq!(text.lines().count(), definitions().count() + PROFILES.len());
        }
        for cut in ["…", "(boot\n"] {
            assert!(!whole.contains(cut), "{whole}");
        }
        for setting in definitions() {
            let what = plain(setting.does);
            let sentence = first_sentence(&what);
            assert!(whole.contains(sentence), "{sentence}");
        }
        assert!(whole.contains("gc.init_slots              10000 or more"), "{whole}");
        assert!(!whole.contains("]("), "{whole}");
        for line in text.lines() {
            assert!(line.chars().count() <= 120 && !line.contains('`'), "{line}");
        }
        assert!(text.contains("arena_max") && text.contains("--profile prefork"), "{text}");
    }

    #[test]
    fn a_long_sentence_ends_with_a_clause() {
        let long = "Loads the runtime and detects the end of the boot, then does nothing that a reader of a list must know.";
        assert_eq!(clause(long), "Loads the runtime and detects the end of the boot");
        assert_eq!(clause("Short. More."), "Short");
    }
}
