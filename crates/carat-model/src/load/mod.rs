//! Loads: their options, their validated form, and their reports.
//!
//! A protocol's options are one struct, which is both its command-line flags and its table in an experiment file.
//! Validation turns them into a load that the generator can run.

pub mod cable;
mod command;
mod data;
mod headers;
pub mod http;
mod options;
mod replay;
pub mod report;
mod scenario;
pub mod sidekiq;
pub mod sql_queue;

pub use cable::{BroadcastEnd, CableLoad, CableOptions, Compat, PayloadShape};
pub use command::report_of_command;
pub use data::DataFile;
pub use http::{Amount, HttpLoad, HttpOptions, HttpRoute, RouteOptions};
pub use options::{
    Arrivals, ConnectionOptions, LoadFlagError, LoadOptionError, Pace, ProtocolOptions,
};
pub use replay::{HttpReplay, ReplayFormat, ReplayPace};
pub use report::{
    BroadcastRow, JobsReport, LoadFlag, LoadReport, OwnCost, RouteFailure, RouteReport, Severity,
    StepReport, Times,
};
pub use scenario::{
    HttpScenario, HttpStep, ScenarioOptions, ScenarioTable, StepBody, StepOptions, TakeFrom,
    TakeOptions,
};
pub use sidekiq::{ALL_AT_ONCE, JobArguments, SidekiqLoad, SidekiqOptions};
pub use sql_queue::{QueueGem, SqlQueueLoad, SqlQueueOptions};

use crate::CommandTable;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Every load protocol, one line each: variant, key and subcommand, options, load, implementation of
/// `Protocol` or of `DrivenLoad` in `carat-load`. The macro named by `$declare` receives the list.
#[macro_export]
macro_rules! with_load_protocols {
    ($declare:ident) => {
        $declare! {
            Http http HttpOptions HttpLoad HttpProtocol;
            Cable cable CableOptions CableLoad CableProtocol;
            Sidekiq sidekiq SidekiqOptions SidekiqLoad SidekiqProtocol;
            SqlQueue sql_queue SqlQueueOptions SqlQueueLoad SqlQueueProtocol;
        }
    };
}

macro_rules! declare_loads {
    ($($variant:ident $key:ident $options:ident $load:ident $protocol:ident;)*) => {
        /// A load to run against a server: plain data, sent as JSON to the generator's process.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum LoadSpec {
            $(#[doc = concat!("The protocol `", stringify!($key), "`.")] $variant($load),)*
        }

        impl LoadSpec {
            fn connection_options(&mut self) -> &mut ConnectionOptions {
                match self {
                    $(Self::$variant(load) => &mut load.options,)*
                }
            }

            fn at(self, base: &str) -> Self {
                match self {
                    $(Self::$variant(load) => Self::$variant($options::at(load, base)),)*
                }
            }
        }

        /// The table `[load]` of an experiment file, as serde reads it.
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct LoadTable {
            $(
                #[doc = concat!("The table `[load.", stringify!($key), "]`.")]
                #[serde(default)]
                pub $key: Option<$options>,
            )*
            /// The table `[load.command]`: a command that drives the load, instead of a protocol.
            #[serde(default)]
            pub command: Option<CommandTable>,
        }

        impl LoadTable {
            /// Checks that the table describes exactly one load of the generator, without contradictions.
            ///
            /// # Errors
            /// If it does not; the message names the keys.
            pub fn validate(&self) -> Result<LoadTemplate, LoadOptionError> {
                let mut templates = Vec::new();
                $(
                    if let Some(options) = &self.$key {
                        let load = options.validate()?;
                        templates.push(LoadTemplate {
                            scheme: options.scheme()?,
                            warmup: options.warmup(&load).map(LoadSpec::$variant),
                            requests: options.requests(),
                            measured: LoadSpec::$variant(load),
                        });
                    }
                )*
                // Several tables would be several loads, of which each trial could run only one.
                let exactly_one = templates.len() == 1 && self.command.is_none();
                templates.pop().filter(|_| exactly_one).ok_or(LoadOptionError::Kind)
            }
        }
    };
}

with_load_protocols!(declare_loads);

impl LoadSpec {
    /// The same load with relative paths of its files resolved in `folder`.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        let options = self.connection_options();
        // Relative to the experiment's file, wherever carat was started.
        options.ca = options.ca.take().map(|file| folder.join(file).display().to_string());
        if let Self::SqlQueue(load) = &mut self
            && let Some(file) = load.database.strip_prefix("sqlite:")
        {
            load.database = format!("sqlite:{}", folder.join(file).display());
        }
        if let Some(data) = self.data() {
            data.move_to(folder);
        }
        if let Some(replay) = self.replay() {
            replay.file = folder.join(&replay.file).display().to_string();
        }
        self
    }

    fn replay(&mut self) -> Option<&mut HttpReplay> {
        match self {
            Self::Http(load) => load.replay.as_mut(),
            Self::Cable(_) | Self::Sidekiq(_) | Self::SqlQueue(_) => None,
        }
    }

    fn data(&mut self) -> Option<&mut DataFile> {
        match self {
            Self::Http(load) => load.data.as_mut(),
            Self::Sidekiq(load) => load.data.as_mut(),
            Self::SqlQueue(load) => load.data.as_mut(),
            Self::Cable(_) => None,
        }
    }

    /// The file whose content the load has, with the key that names it. No load has two.
    // One file per load: its digest is part of the plan.
    fn file(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Http(HttpLoad { replay: Some(replay), .. }) => {
                Some(("load.http.replay", replay.file.as_str()))
            }
            Self::Http(load) => Some(("load.http.data", load.data.as_ref()?.file())),
            Self::Sidekiq(load) => Some(("load.sidekiq.data", load.data.as_ref()?.file())),
            Self::SqlQueue(load) => Some(("load.sql_queue.data", load.data.as_ref()?.file())),
            Self::Cable(_) => None,
        }
    }

    /// The same load with the placeholders in its address filled in by `fill`.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn filled(self, fill: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, String> {
        // The port of a service is known only once the trial has started it.
        match self {
            Self::Sidekiq(load) => {
                Ok(Self::Sidekiq(SidekiqLoad { redis: fill(&load.redis)?, ..load }))
            }
            Self::SqlQueue(load) => {
                Ok(Self::SqlQueue(SqlQueueLoad { database: fill(&load.database)?, ..load }))
            }
            // Loads of the server itself get its address by `at`.
            other => Ok(other),
        }
    }
}

/// A validated load that has no server yet. It comes from [`LoadTable::validate`] only.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadTemplate {
    scheme: &'static str,
    measured: LoadSpec,
    warmup: Option<LoadSpec>,
    requests: Option<u64>,
}

impl LoadTemplate {
    /// The measured load against a server at `host:port`.
    pub fn measured(&self, authority: &str) -> LoadSpec {
        self.measured.clone().at(&self.base(authority))
    }

    /// The load that warms the server up before; `None` if there is none.
    pub fn warmup(&self, authority: &str) -> Option<LoadSpec> {
        self.warmup.clone().map(|load| load.at(&self.base(authority)))
    }

    /// Share of errors above which the figures are invalid, as a fraction.
    pub fn errors(&self) -> f64 {
        self.measured.clone().connection_options().errors
    }

    /// The file of recorded requests or of values that the load needs, with the key that names it.
    pub fn file(&self) -> Option<(&'static str, &str)> {
        self.measured.file()
    }

    /// Fixes the content of that file by its SHA-256 in hex.
    pub fn fix_content(&mut self, sha256: &str) {
        // The warm-up too: both read the file, and either could meet another content.
        for load in std::iter::once(&mut self.measured).chain(&mut self.warmup) {
            if let Some(data) = load.data() {
                *data = data.fixed(sha256);
            }
            if let Some(replay) = load.replay() {
                replay.sha256 = Some(sha256.to_owned());
            }
        }
    }

    /// Requests of the measured load; `None` if it ends by time or sends broadcasts.
    pub fn requests(&self) -> Option<u64> {
        self.requests
    }

    fn base(&self, authority: &str) -> String {
        format!("{}://{authority}", self.scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    fn template(text: &str) -> Result<LoadTemplate, LoadOptionError> {
        toml::from_str::<LoadTable>(text).expect("a table").validate()
    }

    fn http(text: &str) -> HttpLoad {
        match template(text).unwrap().measured("h:1") {
            LoadSpec::Http(load) => load,
            _ => panic!("not an HTTP load: {text}"),
        }
    }

    fn cable(text: &str) -> CableLoad {
        match template(text).unwrap().measured("h:1") {
            LoadSpec::Cable(load) => load,
            _ => panic!("not a cable load: {text}"),
        }
    }

    #[test]
    fn the_smallest_table_is_a_whole_load() {
        let load = http("[http]\nrequests = 5");
        assert_eq!((load.base.as_str(), load.connections), ("http://h:1", 8));
        assert_eq!(load.amount, Amount::Requests(5));
        let load = cable("[cable]");
        assert_eq!(load.url, "ws://h:1/cable");
        assert_eq!(load.pace, Pace::Closed { at_once: 8 });
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        for (text, error) in [
            ("", LoadOptionError::Kind),
            ("[http]\n[cable]", LoadOptionError::Kind),
            ("[http]\n[command]\ncommand = ['k6']", LoadOptionError::Kind),
            ("[http]\n[sidekiq]\nclass = 'A'\njobs = 1", LoadOptionError::Kind),
            ("[http]\nrequests = 1\nduration = '1s'", LoadOptionError::Amount),
            ("[http]\nrequests = 0", LoadOptionError::Zero("http.requests")),
            ("[http]\nduration = '0s'", LoadOptionError::Zero("http.duration")),
            ("[http]\nconnections = 0", LoadOptionError::Zero("http.connections")),
            ("[http]\nrate = 0.0", LoadOptionError::Zero("rate")),
            ("[http]\nrate = nan", LoadOptionError::Rate),
            ("[cable]\nrate = inf", LoadOptionError::Rate),
            ("[http]\narrivals = \"poisson\"", LoadOptionError::Arrivals),
            ("[cable]\nrate = 1.0\nconcurrency = 1", LoadOptionError::Pace),
            ("[http]\npath = 'a'", LoadOptionError::Path("a".into())),
            ("[[http.routes]]\npath = 'a'", LoadOptionError::Path("a".into())),
            (
                "[http]\ndata = 'u.csv'",
                LoadOptionError::Scenario(
                    "is missing: `data` has values for scenarios; add one".into(),
                ),
            ),
            (
                "[[http.routes]]\npath = '/'\n[[http.scenario]]\nname = 's'\nsteps = [{ get = '/' }]",
                LoadOptionError::Scenario("and routes exclude each other: keep one".into()),
            ),
            (
                "[http]\nexpect_status = 200\n[[http.scenario]]\nname = 's'\nsteps = [{ get = '/' }]",
                LoadOptionError::Scenario(
                    "excludes `method`, `body`, `expect_status` and `expect_body` beside it: steps have their own".into(),
                ),
            ),
            (
                "[[http.scenario]]\nname = 's'\nweight = 0\nsteps = [{ get = '/' }]",
                LoadOptionError::Zero("http.scenario.weight"),
            ),
            ("[cable]\nsteps = 0", LoadOptionError::Zero("steps")),
            ("[http]\ninsecure = true", LoadOptionError::Tls),
            ("[cable]\ntls = true\nca = 'a.pem'\ninsecure = true", LoadOptionError::Tls),
        ] {
            assert_eq!(template(text), Err(error), "{text}");
        }
    }

    fn replay(what: &str) -> LoadOptionError {
        LoadOptionError::Replay(what.to_owned())
    }

    #[test]
    fn a_replay_that_contradicts_itself_is_refused() {
        for (text, error) in [
            ("[http]\nreplay = 'a'\nurls = 'b'", replay("and `urls` exclude each other: keep one")),
            (
                "[http]\nall_methods = true",
                replay(
                    "is missing: `replay_format`, `pace`, `all_methods` and `private_headers` are about a replayed file",
                ),
            ),
            (
                "[http]\nreplay = 'a'\n[[http.routes]]\npath = '/'",
                replay("and `routes` or `scenario` exclude each other: keep one"),
            ),
            (
                "[http]\nreplay = 'a'\nmethod = 'POST'",
                replay("excludes `method` and `body`: the file has them"),
            ),
            (
                "[http]\nreplay = 'a'\npace = '2x'\nrate = 5.0",
                replay(
                    "with `pace` excludes `rate` and `urls`: `pace` sends at the times of a log",
                ),
            ),
        ] {
            assert_eq!(template(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_replayed_file_is_in_the_folder_of_the_experiment_and_its_content_can_be_fixed() {
        let text = "[http]\nrequests = 50\nreplay = 'a.log'\nreplay_format = 'access-log'\npace = '2x'\nall_methods = true";
        let mut template = template(text).unwrap();
        assert_eq!(template.file(), Some(("load.http.replay", "a.log")));
        template.fix_content("abc");
        for spec in [Some(template.measured("h:1")), template.warmup("h:1")] {
            let Some(LoadSpec::Http(load)) = spec.map(|spec| spec.in_folder(Path::new("/e")))
            else {
                panic!("not an HTTP load");
            };
            let replay = load.replay.unwrap();
            assert_eq!(replay.file, "/e/a.log");
            assert_eq!(replay.format, Some(ReplayFormat::AccessLog));
            assert_eq!((replay.pace, replay.sha256.as_deref()), (Some(2.0), Some("abc")));
            assert!(replay.all_methods && !replay.private_headers);
        }
        assert_eq!(http("[http]\nurls = 'u'").replay.unwrap().format, Some(ReplayFormat::Urls));
        assert_eq!(http("[http]").replay, None);
    }

    #[test]
    fn a_server_with_tls_is_addressed_over_tls() {
        let spec = |text| template(text).unwrap().measured("h:1").in_folder(Path::new("/e"));
        let LoadSpec::Http(load) = spec("[http]\ntls = true\nca = 'a.pem'") else {
            panic!("not an HTTP load");
        };
        assert_eq!(
            (load.base.as_str(), load.options.ca.as_deref()),
            ("https://h:1", Some("/e/a.pem"))
        );
        let load = cable("[cable]\ntls = true\ninsecure = true");
        assert_eq!((load.url.as_str(), load.options.insecure), ("wss://h:1/cable", true));
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(toml::from_str::<LoadTable>("[http]\nrequest = 5").is_err());
        assert!(toml::from_str::<LoadTable>("[cable]\nstep = 5").is_err());
        assert!(toml::from_str::<LoadTable>("[cable]\nrows = 'a'").is_err());
    }

    #[test]
    fn routes_inherit_what_they_do_not_set() {
        let load = http(
            "[http]\nexpect_status = 200\nheaders = { b = '1', a = '2' }\n[[http.routes]]\npath = \"/a\"\nweight = 3\nheaders = { c = '3' }",
        );
        let route = &load.routes[0];
        assert_eq!((route.weight, route.expect_status), (3, Some(200)));
        let headers = [("a", "2"), ("b", "1"), ("c", "3")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(route.headers, headers);
    }

    #[test]
    fn the_warm_up_is_a_tenth_of_the_load_unless_it_is_given() {
        for (text, expected) in [
            ("[http]\nrequests = 50", Some(Amount::Requests(5))),
            ("[http]\nrequests = 5", None),
            ("[http]\nrequests = 50\nwarmup = 7", Some(Amount::Requests(7))),
            ("[http]\nrequests = 50\nwarmup = 0", None),
            ("[http]\nduration = '20s'", Some(Amount::Seconds(2.0))),
            ("[cable]", None),
        ] {
            let amount = match template(text).unwrap().warmup("h:1") {
                Some(LoadSpec::Http(load)) => {
                    assert_eq!(load.base, "http://h:1", "{text}");
                    Some(load.amount)
                }
                Some(_) => panic!("not an HTTP load: {text}"),
                None => None,
            };
            assert_eq!(amount, expected, "{text}");
        }
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_table() {
        #[derive(Debug, clap::Parser)]
        struct Flags<O: clap::Args> {
            #[command(flatten)]
            options: O,
        }
        let http: Flags<HttpOptions> = clap::Parser::parse_from(["carat"]);
        assert_eq!(http.options, HttpOptions::default());
        let cable: Flags<CableOptions> = clap::Parser::parse_from(["carat"]);
        assert_eq!(cable.options, CableOptions::default());
        let sidekiq: Flags<SidekiqOptions> = clap::Parser::parse_from(["carat", "--class", "A"]);
        let class = "A".to_owned();
        assert_eq!(sidekiq.options, SidekiqOptions { class, ..SidekiqOptions::default() });
        let sql: Flags<SqlQueueOptions> = clap::Parser::parse_from(["carat", "--class", "A"]);
        let class = "A".to_owned();
        assert_eq!(sql.options, SqlQueueOptions { class, ..SqlQueueOptions::default() });
        let timeout = Span::seconds(5);
        let http: Flags<HttpOptions> =
            clap::Parser::parse_from(["carat", "--timeout", "5s", "-X", "post"]);
        assert_eq!((http.options.timeout, http.options.method.as_str()), (timeout, "POST"));
    }
}
