//! The catalogue as a page, so that the documentation cannot differ from the code.

use crate::settings::catalogue::definitions;
use crate::settings::profile::{EVIDENCE, PROFILES, Profile};
use crate::settings::setting::SettingDefinition;
use std::fmt::Write as _;

/// `docs/settings.md`: the whole catalogue as Markdown.
pub fn manual() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         Each can be written in a variant's `settings` of an experiment file, in `carat.toml`, and as\n\
         `carat exec -s NAME=VALUE`. This page is generated from the types in\n\
         `crates/carat/src/settings/catalogue`.\n",
    );
    for setting in definitions() {
        write_entry(&mut page, setting);
    }
    write_profiles(&mut page);
    page
}

fn write_profiles(page: &mut String) {
    page.push_str(
        "\n## `profile`\n\n\
         Sets of settings that were measured together, as `--profile NAME` or `profile = \"NAME\"`; explicit settings\n\
         win over it. [remedies.md](remedies.md) has their figures, from\n",
    );
    let evidence: Vec<String> = EVIDENCE.iter().map(|file| format!("[{file}]({file})")).collect();
    let _ = write!(page, "{}.\n\n", evidence.join(", "));
    for Profile { name, settings, what } in PROFILES {
        let pairs: Vec<String> =
            settings.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
        let _ = writeln!(page, "- **`{name}`**: {}. {what}", pairs.join(", "));
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
