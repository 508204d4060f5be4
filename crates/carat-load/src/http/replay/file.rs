//! Reads the replayed file of a load.

use crate::LoadContent;
use crate::http::replay::collector::ReplayRules;
use crate::http::replay::format::read_traffic;
use crate::http::replay::route::group;
use crate::http::replay::traffic::RecordedTraffic;
use carat_model::load::HttpReplay;
use std::path::Path;

/// Routes that a description names.
const ROUTES_NAMED: usize = 4;

/// The requests of the file.
///
/// # Errors
/// If the file cannot be read, has another content than the plan names, or is malformed; the message names it.
pub fn read_file(replay: &HttpReplay) -> Result<RecordedTraffic, String> {
    let content = LoadContent::read_planned(Path::new(&replay.file), replay.sha256.as_deref())?;
    let rules =
        ReplayRules { all_methods: replay.all_methods, private_headers: replay.private_headers };
    read_traffic(&content.bytes, replay.format, rules)
        .map_err(|what| format!("{}: {what}", replay.file))
}

/// The name of the file without its folders.
pub fn file_name(replay: &HttpReplay) -> String {
    let name = Path::new(&replay.file).file_name();
    name.map_or_else(|| replay.file.clone(), |name| name.to_string_lossy().into_owned())
}

/// What is replayed, with the share of the most frequent routes, in one line.
///
/// # Errors
/// If the file cannot be read; the message names it.
pub fn describe(replay: &HttpReplay) -> Result<String, String> {
    let traffic = read_file(replay)?;
    let groups = group(&traffic);
    let whole = groups.shares.iter().sum::<u64>().max(1) as f64;
    let routes = groups.names.iter().zip(&groups.shares).take(ROUTES_NAMED);
    let mut routes: Vec<String> = routes
        .map(|(name, share)| format!("{name} {:.0} %", *share as f64 / whole * 100.0))
        .collect();
    if groups.names.len() > ROUTES_NAMED {
        routes.push(format!("{} more", groups.names.len() - ROUTES_NAMED));
    }
    Ok(traffic.description(&file_name(replay), &routes.join(", ")))
}
