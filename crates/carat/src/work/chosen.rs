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

/// The settings of the file, of `CARAT_SET` and of the command line. Later ones override earlier ones.
///
/// # Errors
/// Where a setting is not valid, or a file that was named cannot be read.
pub(crate) fn chosen_settings(
    given: &GivenSettings<'_>,
    messages: &mut impl Write,
) -> anyhow::Result<Settings> {
    // From the least to the most explicit: file, environment, command line.
    let mut settings = read_config(given.config, messages)?;
    if let Ok(set) = std::env::var(env::SET) {
        let pairs = set.split(';').filter(|pair| !pair.trim().is_empty());
        settings.overlay(&Settings::from_pairs(pairs).context(env::SET)?);
    }
    let profile = given.profile.iter().map(|name| format!("profile={name}"));
    let pairs: Vec<String> = profile.chain(given.pairs.iter().cloned()).collect();
    settings.overlay(&Settings::from_pairs(pairs.iter().map(String::as_str))?);
    Ok(settings)
}

/// The settings of a file. Without a named file, that of `carat.toml`, if it exists.
fn read_config(named: Option<&Path>, messages: &mut impl Write) -> anyhow::Result<Settings> {
    let path = named.unwrap_or(Path::new("carat.toml"));
    // A file that was named must be readable; one that lies there by chance need not be.
    let text = match named {
        Some(_) => Some(read_text_file(path)),
        None => read_unnamed(path, messages)?.map(Ok),
    };
    let Some(text) = text else { return Ok(Settings::default()) };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let table: toml::Table =
        text.parse().with_context(|| format!("{} is not valid TOML", path.display()))?;
    if named.is_none() && table.contains_key("variant") {
        // An experiment file often has this name. It is not about the server that starts here.
        return Ok(Settings::default());
    }
    read_config_table(&table).with_context(|| path.display().to_string())
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
fn read_config_table(table: &toml::Table) -> anyhow::Result<Settings> {
    if let Some(key) = table.keys().find(|key| !CONFIG_KEYS.contains(&key.as_str())) {
        let hint = did_you_mean(key, CONFIG_KEYS.iter().copied());
        bail!("unknown key `{key}`{hint}; write `profile` and [settings]");
    }
    let mut settings = Settings::default();
    match table.get("profile") {
        Some(toml::Value::String(profile)) => settings.set("profile", profile)?,
        Some(_) => bail!("`profile` must be the name of a profile"),
        None => {}
    }
    match table.get("settings") {
        Some(toml::Value::Table(single)) => settings.overlay(&Settings::parse(single)?),
        Some(_) => bail!("`settings` must be a table"),
        None => {}
    }
    Ok(settings)
}
