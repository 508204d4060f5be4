//! Whether the requested settings are in effect where a running tree serves.

use carat_model::{command_line, shorten};
use carat_proc::observe::{
    Mapping, ProbePage, huge_page_policy, image_of, parse_mappings, ruby_library,
};
use carat_proc::process::{Identity, ListeningSockets, ProcRoot, ServingBy, ServingSigns, serving};
use carat_ruby::RubyVersion;
use carat_settings::{
    Environment, MallocInUse, ProcessObservation, RuntimeReport, SettingCheck, SettingStatus,
    Settings, read_ruby_version, verify,
};
use carat_wire::page::PageReading;
use std::collections::BTreeSet;
use std::path::Path;

/// Programs that start servers and listen themselves, to be controlled.
const LISTENING_LAUNCHERS: [&str; 2] = ["god", "spring"];
/// The longest title of a process in a message, in characters.
const LONGEST_TITLE: usize = 40;

/// What one look at a tree found about its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsLook {
    /// How the processes that serve were found.
    pub by: ServingBy,
    /// Every process with an opinion on the settings, those that serve among them.
    processes: Vec<ProcessChecks>,
}

/// The settings of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessChecks {
    identity: Identity,
    title: String,
    /// The program that it shares with what was forked from it: [`ServingSigns::image`].
    image: Option<u64>,
    serves: bool,
    checks: Vec<SettingCheck>,
}

/// Looks at every process of a tree. Which settings are in effect is decided by those that serve, because what started them
/// may have lost the settings on the way.
pub fn look_at_settings(
    root: &ProcRoot,
    members: &[Identity],
    settings: &Settings,
    applied: &Environment,
) -> SettingsLook {
    let mut sockets = ListeningSockets::new(root.clone());
    let policy = huge_page_policy(root);
    let looks: Vec<(ServingSigns, ProcessChecks)> = members
        .iter()
        .filter_map(|&member| {
            look_at(root, member, &mut sockets, policy.as_deref(), (settings, applied))
        })
        // What was read of a process that was ending says nothing.
        .filter(|(_, found)| root.alive(found.identity))
        .collect();
    let signs: Vec<ServingSigns> = looks.iter().map(|(signs, _)| signs.clone()).collect();
    let (by, pids) = serving(&signs);
    let processes = looks
        .into_iter()
        .map(|(_, checks)| ProcessChecks { serves: pids.contains(&checks.identity.pid), ..checks });
    SettingsLook { by, processes: processes.collect() }
}

/// `None` of a process that is ending.
fn look_at(
    root: &ProcRoot,
    member: Identity,
    sockets: &mut ListeningSockets,
    huge_page_policy: Option<&str>,
    (settings, applied): (&Settings, &Environment),
) -> Option<(ServingSigns, ProcessChecks)> {
    let environ = root.read(member.pid, "environ").ok();
    let (maps, status) = (text(root, member, "maps"), text(root, member, "status"));
    // A process leaves its memory before it ends, and would look like another program then (`exit_mm`, kernel/exit.c).
    if maps.as_ref().is_some_and(String::is_empty) {
        return None;
    }
    let page = ProbePage::find(root, member).and_then(|page| page.read());
    let root_link = std::fs::read_link(root.file(member.pid, "root")).ok();
    let line = root.read(member.pid, "cmdline").unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let mappings = maps.as_ref().map(|maps| parse_mappings(maps.as_bytes())).unwrap_or_default();
    let signs = ServingSigns {
        pid: member.pid,
        parent: root.stat(member.pid).map_or(0, |stat| stat.parent),
        image: image_of(&mappings),
        is_ruby: page.is_some() || mappings.iter().any(Mapping::is_of_ruby),
        listens: sockets.of(member.pid),
        // The second word too: behind `ruby` stands the name of the script.
        is_launcher: words(&line).take(2).any(is_listening_launcher),
    };
    let runtime = page.as_ref().map(RuntimeReport::read);
    let observed = ProcessObservation {
        ruby: ruby_version(root, member, page.as_ref(), &mappings),
        huge_page_policy,
        root: root_link.as_deref(),
        malloc: page.as_ref().and_then(malloc_in_use),
        maps: maps.as_deref(),
        environ: environ.as_deref(),
        status: status.as_deref(),
        // A checksum says whether all variables were there, so it is all of them or none.
        started_with: runtime.map_or(&[], |runtime| runtime.variables_of(applied)),
        runtime,
    };
    let checks = ProcessChecks {
        identity: member,
        title: title(&line),
        image: signs.image,
        serves: false,
        checks: verify(settings, applied, &observed),
    };
    Some((signs, checks))
}

/// The words of a command line, or of the title that took its place.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c == '\0' || c.is_whitespace()).filter(|word| !word.is_empty())
}

fn title(line: &str) -> String {
    shorten(&command_line(line), LONGEST_TITLE)
}

fn is_listening_launcher(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| LISTENING_LAUNCHERS.contains(&name))
}

/// The version of a process's Ruby: by its probe, which a launcher may have lost, by the library, or by the program.
fn ruby_version(
    root: &ProcRoot,
    member: Identity,
    page: Option<&PageReading>,
    mappings: &[Mapping],
) -> Option<RubyVersion> {
    let probed = page.and_then(|page| RubyVersion::find_in(&page.ruby));
    let program = || {
        let is_ruby = mappings.iter().any(Mapping::is_of_ruby);
        is_ruby.then(|| read_ruby_version(&root.file(member.pid, "exe")).ok()?).flatten()
    };
    probed.or_else(|| ruby_library(mappings)).or_else(program)
}

/// The malloc that the probe found.
fn malloc_in_use(page: &PageReading) -> Option<MallocInUse<'_>> {
    Some(MallocInUse { kind: page.allocator?, file: &page.malloc_file })
}

fn text(root: &ProcRoot, member: Identity, file: &str) -> Option<String> {
    let bytes = root.read(member.pid, file).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl SettingsLook {
    /// The programs that serve, each by its image or, where that is unknown, by its pid.
    pub fn programs(&self) -> BTreeSet<u64> {
        self.programs_where(|one| one.serves)
    }

    /// The programs that do not serve.
    pub fn bystanders(&self) -> BTreeSet<u64> {
        self.programs_where(|one| !one.serves)
    }

    fn programs_where(&self, fits: impl Fn(&ProcessChecks) -> bool) -> BTreeSet<u64> {
        let fitting = self.processes.iter().filter(|one| fits(one));
        // Where images are unknown, every process is a program of its own.
        fitting.map(|one| one.image.unwrap_or(u64::from(one.identity.pid))).collect()
    }

    /// Whether each process that serves is the only one of its program: it has forked none that lives. `false` where that is
    /// not known.
    pub fn is_unforked(&self) -> bool {
        let alone = |one: &ProcessChecks| {
            self.processes.iter().filter(|other| is_same_program(one, other)).count() == 1
        };
        self.processes.iter().all(|one| one.image.is_some() && (!one.serves || alone(one)))
    }

    /// The same look if nothing serves.
    pub fn without_server(mut self) -> Self {
        self.by = ServingBy::Nothing;
        self.processes.iter_mut().for_each(|one| one.serves = false);
        self
    }

    /// Adds what an earlier look saw in effect in the same program: a worker that showed it may have ended since, and a title
    /// may hide a variable.
    pub fn after(mut self, earlier: &Self) -> Self {
        for process in &mut self.processes {
            let same = |known: &&ProcessChecks| is_same_program(known, process);
            let known: Vec<&ProcessChecks> = earlier.processes.iter().filter(same).collect();
            // By place: both looks have the same settings in the same order.
            for (setting, check) in process.checks.iter_mut().enumerate() {
                let mut seen = known.iter().filter_map(|known| known.checks.get(setting));
                if is_open(check)
                    && let Some(seen) = seen.find(|known| is_applied(known))
                {
                    check.status = seen.status.clone();
                }
            }
        }
        self
    }

    /// Every chosen setting, in effect only where every program that serves has it; none where nothing serves.
    pub fn checks(&self) -> Vec<SettingCheck> {
        let mut serving = self.processes.iter().filter(|one| one.serves);
        let settings = serving.next().map_or(0, |one| one.checks.len());
        (0..settings).filter_map(|setting| self.check(setting)).collect()
    }

    fn check(&self, setting: usize) -> Option<SettingCheck> {
        let serving: Vec<&ProcessChecks> = self.processes.iter().filter(|one| one.serves).collect();
        // Some settings act only in workers, some only in their parent: the best evidence counts.
        let best_of_program = serving.iter().map(|one| {
            let same = serving.iter().filter(|other| is_same_program(one, other));
            same.copied().max_by_key(|other| rank_within(&other.checks[setting].status))
        });
        // One program that lacks a setting is enough, however many others have it.
        let worst =
            best_of_program.flatten().max_by_key(|one| rank_among(&one.checks[setting].status))?;
        let check = worst.checks.get(setting)?;
        // What is in effect nowhere was not lost on the way.
        let elsewhere =
            self.processes.iter().any(|one| one.checks.get(setting).is_some_and(is_applied));
        let place = format!("pid {} ({})", worst.identity.pid, worst.title);
        let status = match check.status.clone() {
            SettingStatus::NotApplied(why) if elsewhere => {
                SettingStatus::NotApplied(format!("lost in {place}: {why}"))
            }
            SettingStatus::Unknown(why) if elsewhere => {
                SettingStatus::Unknown(format!("in {place}: {why}"))
            }
            status => status,
        };
        Some(SettingCheck { setting: check.setting.clone(), status })
    }
}

/// Whether one was forked from the other, or both from a third.
fn is_same_program(one: &ProcessChecks, other: &ProcessChecks) -> bool {
    match (one.image, other.image) {
        // `exec` keeps the process and changes the program, and with it what was in effect.
        (Some(image), Some(of_other)) => image == of_other,
        // By identity: another process can have the pid of an earlier look.
        _ => one.identity == other.identity,
    }
}

/// Whether it is in effect, at least in part.
pub fn is_applied(check: &SettingCheck) -> bool {
    use SettingStatus::{Applied, Assumed, Partly};
    matches!(check.status, Applied(_) | Assumed | Partly(_))
}

/// Whether a later look may show more.
fn is_open(check: &SettingCheck) -> bool {
    check.status.is_pending() || matches!(check.status, SettingStatus::Unknown(_))
}

/// How strong evidence is compared with that of other processes of one program. Some settings act only in workers, and some
/// only in their parent.
fn rank_within(status: &SettingStatus) -> u8 {
    match status {
        // The parent reports what it did before the fork; that there was nothing to do it for, only its workers can tell.
        SettingStatus::NotPreloaded => 5,
        SettingStatus::NotApplied(_) => 4,
        // What one process left out is said, although another has the whole setting.
        SettingStatus::Partly(_) => 3,
        SettingStatus::Applied(_)
        | SettingStatus::Assumed
        | SettingStatus::Needless
        | SettingStatus::Unchanged => 2,
        SettingStatus::NotYet(_) | SettingStatus::NotForked(_) => 1,
        SettingStatus::Unknown(_) => 0,
    }
}

/// How bad it is that a program of several has this status.
fn rank_among(status: &SettingStatus) -> u8 {
    match status {
        SettingStatus::NotApplied(_) | SettingStatus::NotPreloaded => 4,
        SettingStatus::Unknown(_) => 3,
        SettingStatus::NotYet(_) | SettingStatus::NotForked(_) => 2,
        SettingStatus::Partly(_) | SettingStatus::Assumed => 1,
        SettingStatus::Applied(_) | SettingStatus::Needless | SettingStatus::Unchanged => 0,
    }
}

#[cfg(test)]
impl SettingsLook {
    /// A look at a tree of one process, with one setting.
    pub(crate) fn of_one(by: ServingBy, pid: u32, check: SettingCheck) -> Self {
        let process = ProcessChecks {
            identity: Identity { pid, start_ticks: 1 },
            title: "ruby".into(),
            image: Some(u64::from(pid)),
            serves: by != ServingBy::Nothing,
            checks: vec![check],
        };
        Self { by, processes: vec![process] }
    }

    /// The same look with one more process, which was forked from the first.
    pub(crate) fn with_fork(mut self, pid: u32) -> Self {
        let identity = Identity { pid, start_ticks: 2 };
        self.processes.push(ProcessChecks { identity, ..self.processes[0].clone() });
        self
    }

    /// The same look with one more process, which does not serve.
    pub(crate) fn with_bystander(mut self, pid: u32) -> Self {
        let other = ProcessChecks {
            identity: Identity { pid, start_ticks: 1 },
            image: Some(u64::from(pid)),
            serves: false,
            ..self.processes[0].clone()
        };
        self.processes.push(other);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "prepare_fork=full";

    fn process(pid: u32, image: u64, serves: bool, status: SettingStatus) -> ProcessChecks {
        ProcessChecks {
            identity: Identity { pid, start_ticks: 1 },
            title: "ruby server.rb".into(),
            image: Some(image),
            serves,
            checks: vec![SettingCheck { setting: NAME.into(), status }],
        }
    }

    fn look(processes: &[ProcessChecks]) -> SettingsLook {
        SettingsLook { by: ServingBy::Listening, processes: processes.to_vec() }
    }

    fn says(processes: &[ProcessChecks]) -> String {
        let checks = look(processes).checks();
        checks.first().map_or_else(String::new, ToString::to_string)
    }

    fn applied() -> SettingStatus {
        SettingStatus::Applied("the runtime reports it".into())
    }

    fn not_yet() -> SettingStatus {
        SettingStatus::NotYet("no fork".into())
    }

    fn server(pid: u32, status: SettingStatus) -> ProcessChecks {
        process(pid, 7, true, status)
    }

    fn other(status: SettingStatus) -> ProcessChecks {
        process(9, 8, true, status)
    }

    fn missing() -> SettingStatus {
        SettingStatus::NotApplied("no library".into())
    }

    fn unknown() -> SettingStatus {
        SettingStatus::Unknown("hidden".into())
    }

    #[test]
    fn a_launcher_that_has_a_setting_says_nothing_about_the_server() {
        let launcher = process(2, 5, false, applied());
        assert_eq!(says(std::slice::from_ref(&launcher)), "");
        let lost = "prepare_fork=full NOT APPLIED: lost in pid 3 (ruby server.rb): no library";
        assert_eq!(says(&[launcher, process(3, 7, true, missing())]), lost);
    }

    #[test]
    fn each_program_that_serves_must_have_the_setting_and_one_process_of_it_is_enough() {
        for (processes, expected) in [
            (vec![server(2, not_yet()), server(3, applied())], " applied: "),
            (vec![server(2, unknown()), server(3, applied())], " applied: "),
            (vec![server(2, applied()), server(3, missing())], " NOT APPLIED: lost in pid 3 "),
            (vec![server(2, applied()), other(not_yet())], " not applied yet: "),
            (vec![server(2, applied()), other(unknown())], " cannot be verified: in pid 9 "),
            (vec![server(2, missing()), other(missing())], " NOT APPLIED: no library"),
            (
                vec![server(2, applied()), server(3, SettingStatus::NotPreloaded)],
                " NOT APPLIED: workers load the application themselves",
            ),
        ] {
            let said = says(&processes);
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn what_a_program_once_had_it_keeps_and_no_other_program_gets_it() {
        let earlier = look(&[process(2, 5, false, applied()), process(3, 7, true, applied())]);
        for (image, now, expected) in [
            (7, not_yet(), "applied: the runtime"),
            (7, unknown(), "applied: the runtime"),
            (7, missing(), "NOT APPLIED"),
            (8, not_yet(), "not applied yet"),
        ] {
            let later = look(&[process(4, image, true, now)]).after(&earlier);
            let said = later.checks()[0].to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn a_process_that_has_left_its_memory_is_ending_and_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::new(folder.path());
        let write = |name: &str, text: &str| {
            let path = root.file(7, name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let numbers = ["0"; 46].join(" ");
        write("stat", &format!("7 (ruby) S 1 7 7 0 -1 {numbers}\n"));
        write("environ", "MALLOC_ARENA_MAX=2\0");
        let member = root.identify(7).unwrap();
        let settings = Settings::from_pairs(["arena_max=2"]).unwrap();
        for (maps, looks) in
            [("55d000000000-55d000021000 rw-p 00000000 00:00 0 [heap]\n", 1), ("", 0)]
        {
            write("maps", maps);
            let look = look_at_settings(&root, &[member], &settings, &Environment::default());
            assert_eq!(look.processes.len(), looks, "{maps:?}");
        }
    }

    #[test]
    fn a_title_is_one_short_printable_line_without_secrets() {
        for (line, expected) in [
            (format!("ruby\0{}", "x".repeat(100)), format!("ruby {}…", "x".repeat(34))),
            ("ruby\u{1b}[31m\0a\nb".into(), "ruby a b".into()),
            ("puma\0--control-token\0s3cret".into(), "puma --control-token [hidden]".into()),
            ("env\0DB_PASSWORD=hunter2\0puma".into(), "env DB_PASSWORD=[hidden] puma".into()),
        ] {
            assert_eq!(title(&line), expected);
        }
    }
}
