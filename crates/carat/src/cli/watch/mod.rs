//! `carat watch`: the recorder for production.

mod act;
mod args;
mod last;
mod period;
mod rules;
mod run;
mod store;

pub(super) use args::WatchArgs;
pub(super) use period::{PeriodArgs, report};

use crate::cli::Exit;
use args::WatchCommand;

pub(super) fn run(args: &WatchArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Some(WatchCommand::Last(last)) => last::run(last),
        None => run::run(&args.run),
    }
}
