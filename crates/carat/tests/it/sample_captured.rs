//! `/proc` as captured from several kernels, and as written by hand from the documentation of older ones.

use carat_model::Bytes;
use carat_model::ledger::{Basis, PartKind};
use carat_proc::observe::{SampleOptions, Sampler, available, ledger, oom_kills};
use carat_proc::process::{Identity, ProcRoot, Tree};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proc");
const CAPTURED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proc/linux-6.18/proc");
const SHELL: u32 = 12_629;

/// A copy that a test may change. `keep` decides which lines of which file stay.
fn copy(keep: impl Fn(&str, &str) -> bool) -> (tempfile::TempDir, ProcRoot) {
    copy_of(Path::new(CAPTURED), keep)
}

fn copy_of(from: &Path, keep: impl Fn(&str, &str) -> bool) -> (tempfile::TempDir, ProcRoot) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("proc");
    copy_below(from, &root, &keep);
    (folder, ProcRoot::new(root))
}

fn copy_below(from: &Path, to: &PathBuf, keep: &impl Fn(&str, &str) -> bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_below(&entry.path(), &target, keep);
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap();
        let kept: Vec<&str> = text.lines().filter(|line| keep(&name, line)).collect();
        if !kept.is_empty() {
            fs::write(target, kept.join("\n") + "\n").unwrap();
        }
    }
}

fn members(root: &ProcRoot) -> Vec<Identity> {
    members_below(root, SHELL)
}

fn members_below(root: &ProcRoot, leader: u32) -> Vec<Identity> {
    let leader = root.identify(leader).unwrap();
    let mut tree = Tree::new(root.clone(), leader, "");
    tree.members().iter().map(|stat| stat.identity()).collect()
}

fn full(root: &ProcRoot) -> carat_model::Sample {
    full_of(root, &members(root))
}

fn full_of(root: &ProcRoot, members: &[Identity]) -> carat_model::Sample {
    let mut sampler = Sampler::new(root.clone(), SampleOptions::default());
    sampler.full(members, Duration::from_secs(1))
}

/// The number after `name` in a text of the kernel.
fn number(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
    let mut line = lines.find_map(|mut words| (words.next()? == name).then_some(words));
    line.as_mut().and_then(Iterator::next).unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}

/// The sum of `name` in the `smaps_rollup` of all members.
fn rolled_up(root: &ProcRoot, members: &[Identity], name: &str) -> Bytes {
    let files = members.iter().map(|member| root.file(member.pid, "smaps_rollup"));
    files.map(|file| Bytes::from_kib(number(&fs::read_to_string(file).unwrap(), name))).sum()
}

#[test]
fn the_memory_of_a_captured_tree_is_what_its_kernel_said() {
    let root = ProcRoot::new(CAPTURED);
    let (sample, members) = (full(&root), members(&root));
    assert_eq!((sample.processes, sample.partial, sample.rss), (3, false, None));
    assert_eq!(sample.pss, Some(rolled_up(&root, &members, "Pss:")));
    let private = |kind: &str| rolled_up(&root, &members, kind);
    assert_eq!(sample.uss, Some(private("Private_Clean:") + private("Private_Dirty:")));
}

/// A Puma and its worker in a control group of their own, captured by `bin/capture-kernels`.
struct Puma {
    kernel: &'static str,
    root: ProcRoot,
    members: Vec<Identity>,
    group: PathBuf,
    version: u32,
}

impl Puma {
    fn every() -> Vec<Self> {
        let kernels = [("5.10", 2), ("5.10-cgroup1", 1), ("6.1", 2), ("6.12", 2)].into_iter();
        kernels.map(|(kernel, version)| Self::of(kernel, version)).collect()
    }

    fn of(kernel: &'static str, version: u32) -> Self {
        let machine = Path::new(DATA).join(format!("linux-{kernel}"));
        let hierarchy = machine.join("sys/fs/cgroup").join(["", "memory", ""][version as usize]);
        let group = hierarchy.join("system.slice/puma.service");
        let root = ProcRoot::new(machine.join("proc"));
        let leader = root.pids().unwrap().into_iter().min().unwrap();
        let members = members_below(&root, leader);
        Self { kernel, root, members, group, version }
    }

    /// The number in a file of the group.
    fn charged(&self, file: &str) -> Option<Bytes> {
        let text = fs::read_to_string(self.group.join(file)).ok()?;
        Some(Bytes(text.trim().parse().unwrap()))
    }

    fn rolled_up(&self, name: &str) -> Bytes {
        rolled_up(&self.root, &self.members, name)
    }
}

#[test]
fn the_memory_of_puma_is_what_each_kernel_said() {
    for puma in Puma::every() {
        let kernel = puma.kernel;
        let sample = full_of(&puma.root, &puma.members);
        assert_eq!((sample.processes, sample.partial, sample.rss), (2, false, None), "{kernel}");
        let pss = puma.rolled_up("Pss:");
        let uss = puma.rolled_up("Private_Clean:") + puma.rolled_up("Private_Dirty:");
        assert_eq!((sample.pss, sample.uss), (Some(pss), Some(uss)), "{kernel}");
        assert_eq!(sample.shared, Some(pss.saturating_sub(uss)), "{kernel}");
        assert_eq!(sample.swap, Some(puma.rolled_up("SwapPss:")), "{kernel}");
        for member in &sample.members {
            let text = fs::read_to_string(puma.root.file(member.pid, "status")).unwrap();
            let kib = |name: &str| Some(Bytes::from_kib(number(&text, name)));
            assert_eq!(member.rss, kib("VmRSS:"), "{kernel}");
            assert_eq!(member.rss_peak, kib("VmHWM:"), "{kernel}");
            assert_eq!(member.anonymous, kib("RssAnon:"), "{kernel}");
            assert!(member.rss_peak >= member.rss && member.anonymous < member.rss, "{kernel}");
            assert_eq!(member.threads.map(u64::from), Some(number(&text, "Threads:")), "{kernel}");
        }
        let meminfo = fs::read_to_string(puma.root.path().join("meminfo")).unwrap();
        let free = Bytes::from_kib(number(&meminfo, "MemAvailable:"));
        assert_eq!(
            (available(&puma.root), oom_kills(&puma.root)),
            (Some(free), Some(0)),
            "{kernel}"
        );
    }
}

#[test]
fn a_control_group_has_the_figures_that_its_kernel_knows() {
    for puma in Puma::every() {
        let (kernel, charged) = (puma.kernel, |file: &str| puma.charged(file));
        let group = full_of(&puma.root, &puma.members).cgroup;
        let group = group.unwrap_or_else(|| panic!("{kernel}: the tree has its own group"));
        let stat = fs::read_to_string(puma.group.join("memory.stat")).unwrap();
        let (current, inactive) = match puma.version {
            1 => (charged("memory.usage_in_bytes"), number(&stat, "total_inactive_file")),
            _ => (charged("memory.current"), number(&stat, "inactive_file")),
        };
        assert_eq!(Some(group.current), current, "{kernel}");
        let working_set = group.current.saturating_sub(Bytes(inactive));
        assert_eq!(group.working_set, Some(working_set), "{kernel}");
        assert!(Bytes(0) < working_set && working_set < group.current, "{kernel}");
        assert_eq!((group.sockets, group.oom_kills), (Some(Bytes(0)), Some(0)), "{kernel}");
        let peak = match kernel {
            // `memory.peak` exists since 5.19; version 1 always had a peak.
            "5.10" => None,
            "5.10-cgroup1" => charged("memory.max_usage_in_bytes"),
            _ => charged("memory.peak"),
        };
        assert_eq!(group.peak, peak, "{kernel}");
        assert_eq!(peak.is_some_and(|peak| peak > group.current), kernel != "5.10", "{kernel}");
        let slab = (puma.version == 2).then(|| Bytes(number(&stat, "slab")));
        assert_eq!(group.slab, slab, "{kernel}");
    }
}

#[test]
fn a_ledger_adds_up_to_the_figure_of_each_kernel() {
    for puma in Puma::every().iter().filter(|puma| puma.version == 2) {
        let kernel = puma.kernel;
        let ledger = ledger(&puma.root, &puma.members, &HashMap::new());
        assert_eq!((ledger.processes.len(), ledger.unread.len()), (2, 0), "{kernel}");
        assert_eq!(ledger.pss, puma.rolled_up("Pss:"), "{kernel}");
        let parts: Bytes = ledger.parts.iter().map(|part| part.pss).sum();
        assert_eq!(parts.0 as i64 + ledger.unexplained, ledger.pss.0 as i64, "{kernel}");
        assert!(ledger.unexplained_share() < 0.005, "{kernel}: {ledger:#?}");
        let [leader, worker] = ledger.processes.as_slice() else { panic!("{kernel}: {ledger:#?}") };
        assert!(leader.title.starts_with("puma "), "{kernel}: {}", leader.title);
        assert!(worker.title.starts_with("puma: cluster worker 0: "), "{kernel}: {}", worker.title);
        for process in &ledger.processes {
            assert_eq!(process.allocator.active.as_deref(), Some("glibc"), "{kernel}");
            let settings = [("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())];
            assert_eq!(process.environment, settings, "{kernel}");
        }
    }
}

#[test]
fn the_transient_heap_is_found_on_every_kernel_and_not_counted_as_stacks() {
    for (kernel, has_one) in [("5.10", true), ("6.1", true), ("6.12", false)] {
        let puma = Puma::of(kernel, 2);
        let ledger = ledger(&puma.root, &puma.members, &HashMap::new());
        let part = |kind| ledger.part(kind).map(|part| part.pss);
        // Ruby touches every block of it when it starts: 4 MiB, which a worker inherits.
        let heap = part(PartKind::TransientHeap);
        assert_eq!(heap.is_some_and(|heap| heap > Bytes(4 << 20)), has_one, "{kernel}: {heap:?}");
        // The captured Ruby without a transient heap (3.3) touches its whole main stack (`TOUCHES_MAIN_STACK`).
        let stacks = part(PartKind::Stacks).unwrap();
        assert_eq!(stacks < Bytes(1 << 20), has_one, "{kernel}: {stacks}");
    }
}

#[test]
fn older_kernels_give_the_same_figures_in_their_own_format() {
    // Only the later of the two has anonymous memory (4.5) and kills (4.13).
    for (kernel, is_later) in [("3.10", false), ("4.19", true)] {
        let root = ProcRoot::new(format!("{DATA}/linux-{kernel}-by-hand/proc"));
        let members = members_below(&root, 700);
        let sample = full_of(&root, &members);
        assert_eq!((sample.processes, sample.partial), (2, false), "{kernel}");
        let kib = |kib: u64| Some(Bytes::from_kib(kib));
        assert_eq!(
            (sample.pss, sample.uss, sample.shared, sample.swap),
            (kib(36_788), kib(16_784), kib(20_004), kib(120)),
            "{kernel}"
        );
        let every =
            |known: fn(&carat_model::MemberSample) -> bool| sample.members.iter().all(known);
        assert!(every(|member| member.rss_peak.is_some()), "{kernel}");
        assert_eq!(every(|member| member.anonymous.is_some()), is_later, "{kernel}");
        let group = sample.cgroup.unwrap_or_else(|| panic!("{kernel}: the tree has its own group"));
        assert_eq!(group.working_set, Some(Bytes(46_000_000)), "{kernel}");
        assert_eq!(group.peak, Some(Bytes(61_000_000)), "{kernel}");
        assert_eq!((group.oom_kills.is_some(), group.slab), (is_later, None), "{kernel}");
        let ledger = ledger(&root, &members, &HashMap::new());
        assert_eq!(ledger.pss, Bytes::from_kib(36_788), "{kernel}");
        assert_eq!(ledger.part(PartKind::Stacks).map(|part| part.pss), kib(84), "{kernel}");
        assert_eq!(ledger.part(PartKind::CodeAndFiles).map(|part| part.pss), kib(2004), "{kernel}");
    }
}

/// The captured Pumas with mappings, each with its leader.
fn with_maps() -> impl Iterator<Item = (PathBuf, u32)> {
    let pumas = Puma::every().into_iter().filter(|puma| puma.version == 2);
    pumas.map(|puma| (puma.root.path().to_owned(), puma.members[0].pid))
}

#[test]
fn before_linux_4_14_the_mappings_are_summed_instead() {
    for (capture, leader) in [(CAPTURED.into(), SHELL)].into_iter().chain(with_maps()) {
        let root = ProcRoot::new(&capture);
        let whole = full_of(&root, &members_below(&root, leader));
        let (_folder, root) = copy_of(&capture, |name, _| name != "smaps_rollup");
        let sample = full_of(&root, &members_below(&root, leader));
        assert_eq!((sample.uss, sample.processes), (whole.uss, whole.processes), "{capture:?}");
        let (summed, whole) = (sample.pss.unwrap(), whole.pss.unwrap());
        // Every mapping is rounded down to whole KiB before it is summed; most contain whole KiB anyway.
        assert!(summed <= whole && whole.0 - summed.0 < 80 * 1024, "{capture:?} {summed} {whole}");
    }
}

#[test]
fn figures_that_an_older_kernel_lacks_are_unknown_and_not_zero() {
    let newer = ["RssAnon", "VmSwap", "VmHWM", "SwapPss", "Pss_Anon", "LazyFree"];
    let (_folder, root) = copy(|_, line| !newer.iter().any(|name| line.starts_with(name)));
    let sample = full(&root);
    assert!(sample.pss.is_some());
    assert_eq!(sample.swap, None);
    assert!(sample.members.iter().all(|m| m.anonymous.is_none() && m.rss_peak.is_none()));
}

#[test]
fn a_captured_ledger_adds_up_to_the_figure_of_its_kernel() {
    let root = ProcRoot::new(CAPTURED);
    let ledger = ledger(&root, &members(&root), &HashMap::new());
    assert_eq!(ledger.processes.len(), 3);
    assert!(ledger.processes.iter().all(|process| process.basis == Basis::ProcOnly));
    assert!(ledger.processes[0].title.starts_with("sh -c sleep 30"));
    let sum: i64 = ledger.parts.iter().map(|part| part.pss.0 as i64).sum();
    assert_eq!(sum + ledger.unexplained, ledger.pss.0 as i64);
    assert!(ledger.part(PartKind::CodeAndFiles).is_some());
    assert!(ledger.part(PartKind::Stacks).is_some());
    // Only the loader's own memory and the rounding of each mapping are unexplained here.
    assert!(ledger.unexplained_share() < 0.1, "{ledger:#?}");
}

#[test]
fn a_process_that_cannot_be_read_makes_the_sample_partial_and_is_named_by_its_file() {
    let (folder, root) = copy(|_, _| true);
    let refused = folder.path().join("proc/12636/smaps_rollup");
    // Reading a directory instead fails for every user, including root, though with another error.
    fs::remove_file(&refused).unwrap();
    fs::create_dir(&refused).unwrap();
    let mut sampler = Sampler::new(root.clone(), SampleOptions::default());
    let sample = sampler.full(&members(&root), Duration::from_secs(1));
    assert!(sample.partial);
    assert_eq!(sample.pss, None);
    let refusal = sampler.refusal().unwrap();
    assert!(refusal.contains("12636/smaps_rollup"), "{refusal}");
}
