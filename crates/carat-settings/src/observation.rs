//! What is observed of a running process, and what that says about a setting.

use crate::environment::{Environment, TUNABLES, tunable_of};
use crate::spelling::{is_same, is_same_tunable};
use carat_ruby::RubyVersion;
use carat_ruby::extension::{UNFIT_EXTENSIONS, version_text};
use carat_wire::env;
use carat_wire::page::{AllocatorKind, PageReading, Runtime};
use std::path::Path;

/// Options of Ruby, joined by blanks.
const RUBYOPT: &str = "RUBYOPT";

/// What was read of a process; each may be missing.
#[derive(Debug, Default)]
pub struct ProcessObservation<'a> {
    /// `/proc/PID/maps`.
    pub maps: Option<&'a str>,
    /// `/proc/PID/environ`.
    pub environ: Option<&'a [u8]>,
    /// `/proc/PID/status`.
    pub status: Option<&'a str>,
    /// The version of its Ruby; `None` where it is unknown or the process is no Ruby.
    pub ruby: Option<RubyVersion>,
    /// Which processes of this kernel get huge pages: `always`, `madvise` or `never`.
    pub huge_page_policy: Option<&'a str>,
    /// The target of `/proc/PID/root`.
    pub root: Option<&'a Path>,
    /// The variables of the settings that Ruby was started with, by the runtime's report.
    pub started_with: &'a [String],
    /// The malloc that serves the process; `None` if unknown.
    pub malloc: Option<MallocInUse<'a>>,
    /// What the runtime library reports; `None` where no Ruby has loaded carat's libraries.
    pub runtime: Option<RuntimeReport>,
}

/// The malloc that serves a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MallocInUse<'a> {
    pub kind: AllocatorKind,
    /// The file with its `malloc`.
    pub file: &'a str,
}

/// What the runtime library reports in the shared page: one bit for each requested setting, in the order of the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuntimeReport {
    /// Checksum of the request; `None` where the runtime has not started.
    pub requested: Option<u64>,
    /// Checksum of the variables of the settings; `None` where the runtime has not started.
    pub variables: Option<u64>,
    /// Settings that were applied.
    pub applied: u64,
    /// Settings that Ruby or the runtime refused.
    pub refused: u64,
    /// Settings that left out a compaction.
    pub left_out: u64,
    /// Settings for a preloaded application where this process loads the application itself.
    pub not_preloaded: u64,
    /// Settings for which there is nothing to do on this version of Ruby.
    pub needless: u64,
    /// Settings that were applied on an application which is only assumed to be loaded.
    pub assumed: u64,
    /// The extension because of which they did: its place in the list, from 1 on, and its packed version.
    pub unfit: Option<(u64, u64)>,
}

impl RuntimeReport {
    /// The report in a shared page.
    pub fn read(page: &PageReading) -> Self {
        Self {
            requested: page.runtime.get(Runtime::Requested),
            variables: page.runtime.get(Runtime::Variables),
            applied: page.runtime.get(Runtime::Applied).unwrap_or(0),
            refused: page.runtime.get(Runtime::Refused).unwrap_or(0),
            left_out: page.runtime.get(Runtime::LeftOut).unwrap_or(0),
            not_preloaded: page.runtime.get(Runtime::NotPreloaded).unwrap_or(0),
            needless: page.runtime.get(Runtime::Needless).unwrap_or(0),
            assumed: page.runtime.get(Runtime::Assumed).unwrap_or(0),
            unfit: page
                .runtime
                .get(Runtime::UnfitExtension)
                .zip(page.runtime.get(Runtime::UnfitVersion)),
        }
    }

    /// The variables of the settings, if the runtime found all of them when Ruby started.
    pub fn variables_of(self, environment: &Environment) -> &[String] {
        match self.variables {
            // The runtime hands them on as a whole, so one checksum answers for all of them.
            Some(found) if found == environment.variables_checksum() => &environment.variables,
            _ => &[],
        }
    }

    /// The status of the setting `name` in a process that was started with the request `settings`.
    fn status(self, name: &str, settings: &str, moment: Moment) -> SettingStatus {
        let mut names = settings.split(';').filter_map(|pair| pair.split_once('='));
        let Some(bit) = names.position(|(requested, _)| requested == name) else {
            return SettingStatus::Unknown("it was not requested from the runtime".into());
        };
        // A bit is a place in the request, so bits of another request would mean other settings.
        match self.requested {
            None => return Moment::Start.pending(),
            Some(requested) if requested != env::settings_checksum(settings.as_bytes()) => {
                return SettingStatus::Unknown(
                    "this process was started with other settings".into(),
                );
            }
            Some(_) => {}
        }
        let is_set = |bits: u64| bits & 1 << bit != 0;
        if is_set(self.needless) {
            return SettingStatus::Needless;
        }
        if is_set(self.not_preloaded) {
            return SettingStatus::NotPreloaded;
        }
        match (is_set(self.applied), is_set(self.refused), is_set(self.left_out)) {
            (true, _, true) => {
                SettingStatus::Partly(format!("without compaction, because {}", self.unfit_text()))
            }
            (true, _, false) if is_set(self.assumed) => SettingStatus::Assumed,
            (true, _, false) => SettingStatus::Applied("the runtime reports it".into()),
            (false, true, true) => SettingStatus::NotApplied(self.unfit_text()),
            (false, true, false) => SettingStatus::NotApplied(
                "the runtime could not apply it; the server's stderr has the reason".into(),
            ),
            (false, false, _) => moment.pending(),
        }
    }

    /// Why there was no compaction, and how to have one.
    fn unfit_text(self) -> String {
        let named = self.unfit.and_then(|(place, version)| {
            // Places count from 1, because a zero in the page means none; the page is not trusted.
            let extension = UNFIT_EXTENSIONS.get(usize::try_from(place).ok()?.checked_sub(1)?)?;
            let (gem, version) = (extension.gem, version_text(version));
            Some(format!(
                "{gem} {version} keeps objects where the GC cannot see them ({})",
                extension.source
            ))
        });
        // A place that this list does not have is that of another version's list.
        let cause = named.unwrap_or_else(|| "a loaded C extension cannot be compacted".to_owned());
        format!(
            "{cause}; `trust_extensions=on` compacts all the same, and the server can crash then"
        )
    }
}

/// When the runtime library applies a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// When Ruby has loaded the library.
    Start,
    /// When the server has booted.
    Boot,
    /// When the server forks.
    Fork,
    /// When the server forks and has loaded its application.
    PreloadedFork,
}

impl Moment {
    /// The status until then.
    pub fn pending(self) -> SettingStatus {
        match self {
            Self::Start => SettingStatus::NotYet("the runtime has not started".into()),
            Self::Boot => SettingStatus::NotYet("the server has not finished booting".into()),
            Self::Fork => SettingStatus::NotForked("no worker has been forked"),
            Self::PreloadedFork => SettingStatus::NotForked("no preloaded application has forked"),
        }
    }
}

/// Whether one setting was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingStatus {
    /// It is in effect, by this evidence.
    Applied(String),
    /// The runtime reports it, but the application may be one that each worker loads itself.
    Assumed,
    /// It is in effect without a part, for this reason.
    Partly(String),
    /// It acts only at a moment that has not come yet.
    NotYet(String),
    /// It acts only when the server forks, which has not been reported; the reason where it has forked all the same.
    NotForked(&'static str),
    /// It is not in effect, for this reason.
    NotApplied(String),
    /// It acts before the fork on the application, but a worker loads the application itself.
    NotPreloaded,
    /// There is nothing to do for it on this version of Ruby.
    Needless,
    /// It is the default, for which nothing is changed.
    Unchanged,
    /// Nothing in the process shows it, for this reason.
    Unknown(String),
}

impl SettingStatus {
    /// Whether it acts at a moment that has not come yet, or workers may still show that it has not.
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::NotYet(_) | Self::NotForked(_) | Self::Assumed)
    }

    /// Whether it is as good as it can become. A worker that has loaded the application itself may still fork others.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Applied(_) | Self::Partly(_) | Self::Needless | Self::Unchanged)
    }
}

impl ProcessObservation<'_> {
    /// Whether the process was started with a variable of this value.
    pub fn has_variable(&self, name: &str, value: &str) -> SettingStatus {
        let status = self.variable_status(name, |found| is_same(name, found, value));
        let Some(overriding) = self.overriding_tunable(name) else { return status };
        match is_same_tunable(&overriding, value) {
            Some(true) => status,
            Some(false) => SettingStatus::NotApplied(format!(
                "{TUNABLES} in its environment has another value, which glibc prefers to {name}"
            )),
            None => SettingStatus::Unknown(format!(
                "{TUNABLES} in its environment has `{overriding}` for {name}, which not every glibc ignores"
            )),
        }
    }

    /// Whether the process was started with a variable of the user's, or with what became of it: a setting may have joined its
    /// own value with it, and `RUBYOPT` has options of carat's libraries too.
    pub fn has_given_variable(
        &self,
        name: &str,
        value: &str,
        environment: &Environment,
    ) -> SettingStatus {
        let has_all = |found: &str| {
            let has = |word: &str| found.split_ascii_whitespace().any(|one| one == word);
            value.split_ascii_whitespace().all(has)
        };
        let joined = environment.set.get(name).map_or(value, String::as_str);
        match self.has_variable(name, joined) {
            SettingStatus::NotApplied(_) if name == RUBYOPT => self.variable_status(name, has_all),
            status => status,
        }
    }

    /// The value of the tunable that glibc prefers to a variable of its malloc.
    fn overriding_tunable(&self, variable: &str) -> Option<String> {
        let tunables = self.variable(TUNABLES)?;
        value_of_tunable(&tunables, &tunable_of(variable)?).map(str::to_owned)
    }

    /// Whether the process was started with a tunable of glibc at this value.
    pub fn has_tunable(&self, name: &str, value: &str) -> SettingStatus {
        self.variable_status(TUNABLES, |found| {
            value_of_tunable(found, name)
                .is_some_and(|found| found == value || is_same_tunable(found, value) == Some(true))
        })
    }

    /// The value of a variable of `/proc/PID/environ`; `None` where it is not there, or hidden.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        // The first one, as `getenv` finds it.
        values_of(self.environ?, name).next()
    }

    /// Whether the process was started with a variable whose value `fits`.
    pub fn variable_status(&self, name: &str, fits: impl Fn(&str) -> bool) -> SettingStatus {
        let Some(environ) = self.environ else {
            // Not refused: that it cannot be read says nothing about the setting.
            return SettingStatus::Unknown("/proc/PID/environ cannot be read".into());
        };
        let values: Vec<String> = values_of(environ, name).collect();
        if values.iter().any(|value| fits(value)) {
            SettingStatus::Applied(format!("{name} is in its environment"))
        } else if !values.is_empty() {
            SettingStatus::NotApplied(format!("{name} has another value in its environment"))
        } else if self.started_with.iter().any(|known| known == name) {
            // Ruby's `$0=` overwrites the environment that the kernel shows; the report stays.
            SettingStatus::Applied(format!("{name} was in its environment when Ruby started"))
        } else {
            SettingStatus::Unknown(format!(
                "{name} is not in /proc/PID/environ; a process title can hide it"
            ))
        }
    }

    /// What the runtime library reports about a setting that was requested from it.
    pub fn runtime_status(
        &self,
        name: &str,
        environment: &Environment,
        moment: Moment,
    ) -> SettingStatus {
        let settings = environment.set.get(env::SETTINGS).map_or("", String::as_str);
        match self.runtime {
            Some(report) => report.status(name, settings, moment),
            None => match self.maps {
                None => SettingStatus::Unknown("/proc/PID/maps cannot be read".into()),
                Some(maps) if maps.contains("/carat_runtime.") => SettingStatus::Unknown(
                    "carat's libraries are loaded there, but cannot report; the server's stderr has the reason"
                        .into(),
                ),
                Some(_) => SettingStatus::NotApplied("carat's libraries are not loaded there".into()),
            },
        }
    }
}

/// The values of a variable in `/proc/PID/environ`, in their order.
fn values_of(environ: &[u8], name: &str) -> impl Iterator<Item = String> {
    let variables = environ.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables.filter_map(move |one| Some(one.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// The value of one of glibc's tunables.
fn value_of_tunable<'a>(tunables: &'a str, name: &str) -> Option<&'a str> {
    let mut all = tunables.split(':').filter_map(|tunable| tunable.split_once('='));
    // glibc uses the last of two equal names, so an earlier one says nothing.
    all.rfind(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::SettingCheck;
    use crate::verify::tests::word;
    use carat_ruby::extension::pack_version;

    #[test]
    fn the_order_of_the_request_names_the_bits_of_the_report() {
        let request = "compact=boot;trim=idle;yjit=after-fork";
        let requested = Some(env::settings_checksum(request.as_bytes()));
        let report =
            RuntimeReport { requested, applied: 0b10, refused: 0b100, ..RuntimeReport::default() };
        for (name, expected) in [
            ("compact", "not yet"),
            ("trim", "applied"),
            ("yjit", "not applied"),
            ("ksm", "unknown"),
        ] {
            assert_eq!(word(&report.status(name, request, Moment::Boot)), expected, "{name}");
        }
        let other = RuntimeReport { requested: requested.map(|sum| sum + 1), ..report };
        assert_eq!(word(&other.status("trim", request, Moment::Boot)), "unknown");
        let assumed = RuntimeReport { assumed: 0b10, ..report };
        assert_eq!(word(&assumed.status("trim", request, Moment::Boot)), "assumed");
        let by_workers = RuntimeReport { not_preloaded: 0b1, needless: 0b100, ..report };
        for (name, expected) in [("compact", "not preloaded"), ("yjit", "needless")] {
            assert_eq!(word(&by_workers.status(name, request, Moment::Boot)), expected, "{name}");
        }
        let not_started = RuntimeReport::default();
        assert_eq!(word(&not_started.status("trim", request, Moment::Fork)), "not yet");
    }

    #[test]
    fn a_compaction_that_was_left_out_is_named_with_its_extension_and_the_way_to_override() {
        let request = "prepare_fork=full;compact=boot";
        let report = RuntimeReport {
            requested: Some(env::settings_checksum(request.as_bytes())),
            applied: 0b01,
            refused: 0b10,
            left_out: 0b11,
            variables: None,
            unfit: Some((5, pack_version([3, 5, 1]))),
            ..RuntimeReport::default()
        };
        let cause =
            "redcarpet 3.5.1 keeps objects where the GC cannot see them (vmg/redcarpet#806)";
        for (name, expected) in [("prepare_fork", "partly"), ("compact", "not applied")] {
            let status = report.status(name, request, Moment::Boot);
            assert_eq!(word(&status), expected);
            let text = SettingCheck { setting: name.into(), status }.to_string();
            assert!(text.contains(cause) && text.contains("`trust_extensions=on`"), "{text}");
        }
        let unnamed = RuntimeReport { unfit: Some((99, 0)), ..report };
        let text = format!("{:?}", unnamed.status("prepare_fork", request, Moment::Fork));
        assert!(text.contains("a loaded C extension cannot be compacted"), "{text}");
    }

    #[test]
    fn the_last_of_two_equal_tunables_counts() {
        let environ = b"GLIBC_TUNABLES=a.b=1:glibc.malloc.tcache_count=0:a.b=2\0";
        let process = ProcessObservation { environ: Some(environ), ..Default::default() };
        for (value, expected) in [("2", "applied"), ("1", "not applied")] {
            assert_eq!(word(&process.has_tunable("a.b", value)), expected);
        }
    }

    #[test]
    fn a_variable_with_another_value_or_behind_a_tunable_of_another_value_is_not_applied() {
        for (environ, expected) in [
            ("MALLOC_TRIM_THRESHOLD_=7", "applied"),
            ("MALLOC_TRIM_THRESHOLD_=8", "not applied"),
            ("A=MALLOC_TRIM_THRESHOLD_=7", "unknown"),
            (
                "MALLOC_TRIM_THRESHOLD_=7\0GLIBC_TUNABLES=glibc.malloc.trim_threshold=9",
                "not applied",
            ),
            ("MALLOC_TRIM_THRESHOLD_=7\0GLIBC_TUNABLES=glibc.malloc.trim_threshold=7", "applied"),
            ("MALLOC_TRIM_THRESHOLD_=7\0GLIBC_TUNABLES=glibc.malloc.top_pad=9", "applied"),
            ("MALLOC_TRIM_THRESHOLD_=0x7", "applied"),
            ("MALLOC_TRIM_THRESHOLD_=7\0GLIBC_TUNABLES=glibc.malloc.trim_threshold=07", "applied"),
            ("MALLOC_TRIM_THRESHOLD_=7\0GLIBC_TUNABLES=glibc.malloc.trim_threshold=7k", "unknown"),
        ] {
            let process =
                ProcessObservation { environ: Some(environ.as_bytes()), ..Default::default() };
            let status = process.has_variable("MALLOC_TRIM_THRESHOLD_", "7");
            assert_eq!(word(&status), expected, "{environ}");
        }
    }
}
