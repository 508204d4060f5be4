//! What was probably meant by a command line that is refused.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error with the command that was probably meant, where a process or an address stands alone; `command` is the first word.
pub(crate) fn with_tip(mut error: clap::Error, command: Option<&str>) -> clap::Error {
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(given)) => Some(given.as_str()),
        _ => None,
    };
    let is_pid = |given: &str| given.parse::<u32>().is_ok();
    let meant = match (error.kind(), command) {
        (ErrorKind::InvalidSubcommand, command) => match given(ContextKind::InvalidSubcommand) {
            Some(url) if url.starts_with("http") && command == Some("load") => {
                Some(format!("carat load http {url}"))
            }
            Some(pid) if is_pid(pid) && command == Some(pid) => {
                Some(format!("carat explain {pid}"))
            }
            _ => None,
        },
        (ErrorKind::UnknownArgument, Some("record")) => given(ContextKind::InvalidArg)
            .filter(|given| is_pid(given))
            .map(|pid| format!("carat record --pid {pid}")),
        _ => None,
    };
    if let Some(meant) = meant {
        let tip = ContextValue::StyledStrs(vec![format!("type `{meant}`").into()]);
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}
