//! The Ruby trees of a host or container, one row each.

use crate::group_use::GroupUse;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name and version of the JSON of `carat ps`.
pub const HOST_SCHEMA: &str = "carat.ps/1";

/// Every Ruby tree at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTrees {
    /// [`HOST_SCHEMA`].
    pub schema: String,
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// The largest first; those of unknown size by what is known of them.
    pub trees: Vec<RubyTree>,
    /// What could not be read, and what helps.
    pub notes: Vec<String>,
}

/// What a process is in its tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// Restarts the others, such as Passenger's watchdog.
    Watchdog,
    /// Hands requests to the others, such as Passenger's core.
    Core,
    /// Loaded the app for others to be forked from.
    Preloader,
    /// Started the workers.
    Master,
    Worker,
    /// The only Ruby of its tree.
    #[default]
    Single,
    /// Another program.
    Other,
}

impl ProcessRole {
    /// The word for it, as rules and labels have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Watchdog => "watchdog",
            Self::Core => "core",
            Self::Preloader => "preloader",
            Self::Master => "master",
            Self::Worker => "worker",
            Self::Single => "single",
            Self::Other => "other",
        }
    }
}

/// What a server is, as its title and its program say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerName {
    /// The program: `puma`, `sidekiq`, `passenger`, `rails runner`, `ruby` for any script, …
    pub program: String,
    /// Its version, where its title says.
    pub version: Option<String>,
    /// The name or the folder of the app, or the name of the script.
    pub app: Option<String>,
}

impl fmt::Display for ServerName {
    /// `puma 6.6.0 blog`: what is known of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        let others = [&self.version, &self.app];
        others.into_iter().flatten().try_for_each(|part| write!(f, " {part}"))
    }
}

/// Servers and jobs of one app: what was forked together, and what it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RubyTree {
    /// The process to name in other commands.
    pub pid: u32,
    pub server: ServerName,
    /// Processes that serve beside the one that started them.
    pub workers: u32,
    /// When its first process began, in Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Proportional memory of all its processes; `None` if one of them could not be read.
    pub pss: Option<Bytes>,
    /// Resident memory of the largest process.
    pub largest_rss: Option<Bytes>,
    /// Private memory of a worker: the median; of the process itself where it has no workers.
    pub private_per_worker: Option<Bytes>,
    /// Memory in swap; `None` if one process does not tell.
    pub swap: Option<Bytes>,
    /// Version of Ruby.
    pub ruby: Option<String>,
    /// `yjit`, `mjit`, `jit` if it is on and its kind is unknown, `off`; `None` if that cannot be told.
    pub jit: Option<String>,
    /// The malloc that Ruby's calls reach; `None` if that was not read.
    pub allocator: Option<String>,
    /// Malloc arenas of the process with the most, where that is known.
    pub arenas: Option<u32>,
    /// The control group of its first process that can be seen.
    pub group: Option<GroupUse>,
    pub processes: Vec<TreeProcess>,
    /// What could not be read of it, and what helps.
    pub missing: Vec<String>,
    /// The command that helps most now, without the name of the program.
    pub next: String,
    /// Why.
    pub why: String,
}

/// One process of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeProcess {
    pub pid: u32,
    pub parent: u32,
    pub role: ProcessRole,
    /// Its command line as it may be shown.
    pub title: String,
    pub is_ruby: bool,
    /// The process that it was forked from with the app loaded, where one is left.
    pub forked_from: Option<u32>,
    pub rss: Option<Bytes>,
    pub pss: Option<Bytes>,
    /// Memory that only it maps.
    pub private: Option<Bytes>,
    pub swap: Option<Bytes>,
    pub threads: Option<u32>,
}
