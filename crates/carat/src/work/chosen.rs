//! Which settings a server is started with: those of `carat.toml`, of `CARAT_SET` and of the command line.

use crate::config::read_text_file;
use anyhow::{Context, bail};
use carat_files::is_trusted;
use carat_model::did_you_mean;
use carat_settings::Settings;
use carat_wire::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the largest `carat.toml` that is read without being named.
const CONFIG_MAX: u64 = 1 << 20;
/// The file that is read without being named.
const CONFIG: &str = "carat.toml";
/// The keys of `carat.toml`.
const CONFIG_KEYS: [&str; 2] = ["profile", "settings"];

/// What the command line says.
#[derive(Debug)]
pub(crate) struct GivenSettings<'a> {
    pub(crate) config: Option<&'a Path>,
    pub(crate) profile: Option<&'a str>,
    /// Single settings as NAME=VALUE, the later ones last.
    pub(crate) pairs: Vec<String>,
}

/// The settings of the file, of `CARAT_SET` and of the command line. Later ones override earlier ones, and a profile takes the
/// place of an earlier profile: together they are a set of settings that nobody has tried. What else of the file applies beside
/// the command line is said.
///
/// # Errors
/// Where a setting is not valid, or a file that was named cannot be read.
pub(crate) fn chosen_settings(
    given: &GivenSettings<'_>,
    messages: &mut impl Write,
) -> anyhow::Result<Settings> {
    // From the least to the most explicit: file, environment, command line.
    let set = std::env::var(env::SET).unwrap_or_default();
    let set = set.split(';').map(str::trim).filter(|pair| !pair.is_empty());
    let (set_profiles, set): (Vec<&str>, Vec<&str>) = set.partition(|pair| is_profile(pair));
    let named = given.profile.map(|name| format!("profile={name}"));
    let pairs = named.iter().chain(&given.pairs).map(String::as_str);
    let (profiles, pairs): (Vec<&str>, Vec<&str>) = pairs.partition(|pair| is_profile(pair));
    let replacing = profiles.last().or(set_profiles.last()).copied();
    let file = read_config(given.config, replacing.is_some(), messages)?;
    let set_profiles = if profiles.is_empty() { &set_profiles[..] } else { &[] };
    let from_set = set_profiles.last().into_iter().chain(&set).copied();
    let mut given_here = Settings::from_pairs(from_set).context(env::SET)?;
    let of_line = Settings::from_pairs(profiles.last().into_iter().chain(&pairs).copied())?;
    given_here.overlay(&of_line);
    if let (Some(left_out), Some(replacing)) = (&file.left_out, replacing) {
        let path = given.config.unwrap_or(Path::new(CONFIG)).display();
        writeln!(
            messages,
            "carat exec: profile={left_out} of {path} does not apply, because {replacing} is given"
        )?;
    }
    // Whoever names the file, or no setting, means all of it.
    if given.config.is_none() && of_line != Settings::default() {
        say_from_file(&file.settings, &given_here, messages)?;
    }
    let mut settings = file.settings;
    settings.overlay(&given_here);
    Ok(settings)
}

/// Whether a `name=value` chooses a profile.
fn is_profile(pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(name, _)| name.trim() == "profile")
}

/// Says which settings a file that nobody named adds to those that are given.
fn say_from_file(file: &Settings, given: &Settings, messages: &mut impl Write) -> io::Result<()> {
    let (file, given) = (file.describe(), given.describe());
    let added = file.iter().filter(|(name, _)| !given.contains_key(*name));
    let added: Vec<String> = added
        .map(|(name, value)| match name.starts_with("env.") {
            // The value may be a secret, and stderr is often a log.
            true => name.clone(),
            false => format!("{name}={value}"),
        })
        .collect();
    match added.is_empty() {
        true => Ok(()),
        false => writeln!(messages, "carat exec: also from {CONFIG}: {}", added.join(", ")),
    }
}

/// What a file says.
#[derive(Default)]
struct ConfigFile {
    settings: Settings,
    /// The profile that another one replaces.
    left_out: Option<String>,
}

/// The settings of a file, without its profile where another one replaces it. Without a named file, that of `carat.toml`, if it
/// exists.
fn read_config(
    named: Option<&Path>,
    profile_is_replaced: bool,
    messages: &mut impl Write,
) -> anyhow::Result<ConfigFile> {
    let path = named.unwrap_or(Path::new(CONFIG));
    // A file that was named must be readable; one that lies there by chance need not be.
    let text = match named {
        Some(_) => Some(read_text_file(path)),
        None => read_unnamed(path, messages)?.map(Ok),
    };
    let Some(text) = text else { return Ok(ConfigFile::default()) };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let table: toml::Table =
        text.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    if named.is_none() && table.contains_key("variant") {
        // An experiment file often has this name. It is not about the server that starts here.
        return Ok(ConfigFile::default());
    }
    read_config_table(&table, profile_is_replaced).with_context(|| path.display().to_string())
}

/// The text of a file that nobody named: it counts only if it is a file of this user or of root. Anything else, such as a pipe
/// or a file of somebody who shares the folder, is left out with a message, so that it cannot keep the server from starting.
fn read_unnamed(path: &Path, messages: &mut impl Write) -> io::Result<Option<String>> {
    let why = match open_regular(path) {
        Ok(mut file) => match file.metadata() {
            Ok(found) if is_trusted(found.uid()) => {
                let mut text = String::new();
                match file.read_to_string(&mut text) {
                    Ok(_) => return Ok(Some(text)),
                    Err(error) => error.to_string(),
                }
            }
            Ok(_) => "it belongs to another user".to_owned(),
            Err(error) => error.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => error.to_string(),
    };
    writeln!(messages, "carat exec: without {}: {why}; name it with --config", path.display())?;
    Ok(None)
}

/// Opens a regular file and nothing else, without waiting for the other end of a pipe. A link is not followed: who shares the
/// folder could let it lead to any file of root.
fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened, because opening a device can have effects.
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    // Of what was opened, because the name can lead elsewhere since the first look.
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    match found.len() <= CONFIG_MAX {
        true => Ok(file),
        false => Err(io::Error::other(format!("it has more than {CONFIG_MAX} bytes"))),
    }
}

/// The settings of `profile` under those of `[settings]`.
fn read_config_table(table: &toml::Table, profile_is_replaced: bool) -> anyhow::Result<ConfigFile> {
    if let Some(key) = table.keys().find(|key| !CONFIG_KEYS.contains(&key.as_str())) {
        let hint = did_you_mean(key, CONFIG_KEYS.iter().copied());
        bail!("unknown key `{key}`{hint}; write `profile` and [settings]");
    }
    let mut settings = Settings::default();
    let mut left_out = None;
    match table.get("profile") {
        Some(toml::Value::String(profile)) if profile_is_replaced => {
            left_out = Some(profile.clone());
        }
        Some(toml::Value::String(profile)) => settings.set("profile", profile)?,
        Some(_) => bail!("`profile` must be the name of a profile"),
        None => {}
    }
    match table.get("settings") {
        Some(toml::Value::Table(single)) => {
            let mut single = single.clone();
            if profile_is_replaced && let Some(profile) = single.remove("profile") {
                left_out = Some(profile.as_str().unwrap_or_default().to_owned());
            }
            settings.overlay(&Settings::parse(&single)?);
        }
        Some(_) => bail!("`settings` must be a table"),
        None => {}
    }
    Ok(ConfigFile { settings, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_whose_profile_is_replaced_only_the_single_settings_apply() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let read = |text: &str, profile, pairs: &[&str]| {
            std::fs::write(&path, text).unwrap();
            let pairs = pairs.iter().map(ToString::to_string).collect();
            let given = GivenSettings { config: Some(&path), profile, pairs };
            let mut said = Vec::new();
            let chosen = chosen_settings(&given, &mut said).unwrap();
            (chosen.describe(), String::from_utf8(said).unwrap())
        };
        let described =
            |pairs: &[&str]| Settings::from_pairs(pairs.iter().copied()).unwrap().describe();
        let key = "profile = 'low-memory'\n[settings]\ncompact = 'boot'\n";
        let table = "[settings]\nprofile = 'low-memory'\ncompact = 'boot'\n";
        for text in [key, table] {
            let replaced = described(&["compact=boot", "profile=balanced"]);
            for (profile, pairs) in [(Some("balanced"), &[][..]), (None, &["profile=balanced"])] {
                let (chosen, said) = read(text, profile, pairs);
                assert_eq!(chosen, replaced, "{text}");
                assert!(said.contains("profile=low-memory of "), "{said}");
            }
            let both = described(&["profile=low-memory", "compact=boot", "seal=on"]);
            assert_eq!(read(text, None, &["seal=on"]), (both, String::new()), "{text}");
        }
    }
}
