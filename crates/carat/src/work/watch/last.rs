//! `carat watch last`: how the last processes ended.

use crate::view::output;
use crate::work::exit::Exit;
use crate::work::watch::store::store_path;
use anyhow::bail;
use carat_model::watch::{LAST_SCHEMA, LastWords};
use carat_report::last_words_text;
use carat_watch::store::{Period, WatchStore};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ends that are searched for a pid.
const SEARCHED: usize = 1_000;

/// One call of `carat watch last`.
#[derive(Debug)]
pub(crate) struct LastRequest {
    /// Only the process that had this pid.
    pub(crate) pid: Option<u32>,
    /// The store; without it the usual one.
    pub(crate) store: Option<PathBuf>,
    /// How many processes.
    pub(crate) number: usize,
    pub(crate) json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct LastJson<'a> {
    schema: &'static str,
    ended: &'a [LastWords],
}

/// Prints how the last processes ended.
///
/// # Errors
/// Where the store cannot be read, or has no such end.
pub(crate) fn print_last_words(request: &LastRequest) -> anyhow::Result<Exit> {
    let path = store_path(request.store.as_deref())?;
    let store = WatchStore::open_to_read(&path)?;
    let most = if request.pid.is_some() { SEARCHED } else { request.number };
    let mut words = store.last_words(most)?;
    if let Some(pid) = request.pid {
        words.retain(|one| one.process.pid == pid);
        words.truncate(request.number);
    }
    if request.json {
        let json = LastJson { schema: LAST_SCHEMA, ended: &words };
        output::print_data(&(serde_json::to_string_pretty(&json)? + "\n"))?;
        return Ok(Exit::Fine);
    }
    if let (true, Some(pid)) = (words.is_empty(), request.pid) {
        bail!("no process {pid} ended in {}", path.display());
    }
    if words.is_empty() {
        let followed = store.processes(Period::ALWAYS)?.len();
        let text = format!(
            "No process has ended since {} was begun; {followed} followed.\n",
            path.display()
        );
        output::print_text(&text)?;
        return Ok(Exit::Fine);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut text = last_words_text(&words, u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let report = carat_report::shell_line(&[
        "carat".to_owned(),
        "report".to_owned(),
        path.display().to_string(),
    ]);
    text += &format!("Next  {report}\n");
    output::print_text(&text)?;
    Ok(Exit::Fine)
}
