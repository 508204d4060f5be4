//! A captured `/proc`, and trees written by hand after the documentation of older kernels.

use carat::model::Bytes;
use carat::model::ledger::{Basis, PartKind};
use carat::process::{Identity, ProcRoot, Tree};
use carat::sample::{SampleOptions, Sampler, ledger};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CAPTURED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proc/linux-6.18/proc");
/// A tree written after the documentation of another kernel.
const BY_HAND: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/proc/linux-KERNEL-by-hand/proc");
const SHELL: u32 = 12_629;

/// A copy that a test may change; `keep` says which lines of which file stay.
fn copy(keep: impl Fn(&str, &str) -> bool) -> (tempfile::TempDir, ProcRoot) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("proc");
    copy_below(Path::new(CAPTURED), &root, &keep);
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
    let leader = root.identify(SHELL).unwrap();
    let mut tree = Tree::new(root.clone(), leader, "");
    tree.members().iter().map(|stat| stat.identity()).collect()
}

fn full(root: &ProcRoot) -> carat::model::Sample {
    let mut sampler = Sampler::new(root.clone(), SampleOptions::default());
    sampler.full(&members(root), Duration::from_secs(1))
}

#[test]
fn a_captured_tree_weighs_what_its_kernel_said() {
    let root = ProcRoot::new(CAPTURED);
    let sample = full(&root);
    assert_eq!((sample.processes, sample.partial, sample.rss), (3, false, None));
    let of = |name: &str| -> u64 {
        let files = members(&root).into_iter().map(|m| root.file(m.pid, "smaps_rollup"));
        let texts = files.map(|file| fs::read_to_string(file).unwrap());
        let number = |text: String| -> u64 {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
            line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
        };
        texts.map(number).sum()
    };
    assert_eq!(sample.pss, Some(Bytes::from_kib(of("Pss:"))));
    let private = of("Private_Clean:") + of("Private_Dirty:");
    assert_eq!(sample.uss, Some(Bytes::from_kib(private)));
}

/// What one kernel says about the same Puma and its worker.
struct Told {
    kernel: &'static str,
    rss_peaks: bool,
    anonymous: bool,
    cgroup_peak: bool,
    cgroup_kills: bool,
    slab: bool,
}

#[test]
fn every_kernel_tells_the_same_figures_in_its_own_way() {
    let all = Told {
        kernel: "6.1",
        rss_peaks: true,
        anonymous: true,
        cgroup_peak: true,
        cgroup_kills: true,
        slab: true,
    };
    for told in [
        Told { kernel: "3.10", anonymous: false, cgroup_kills: false, slab: false, ..all },
        Told { kernel: "4.19", slab: false, ..all },
        Told { kernel: "5.10", cgroup_peak: false, ..all },
        all,
    ] {
        let kernel = told.kernel;
        let root = ProcRoot::new(BY_HAND.replace("KERNEL", kernel));
        let leader = root.identify(700).unwrap();
        let mut tree = Tree::new(root.clone(), leader, "");
        let members: Vec<Identity> = tree.members().iter().map(|stat| stat.identity()).collect();
        let mut sampler = Sampler::new(root.clone(), SampleOptions::default());
        let sample = sampler.full(&members, Duration::from_secs(1));
        assert_eq!((sample.processes, sample.partial), (2, false), "{kernel}");
        let kib = |kib: u64| Some(Bytes::from_kib(kib));
        assert_eq!(
            (sample.pss, sample.uss, sample.shared, sample.swap),
            (kib(36_788), kib(16_784), kib(20_004), kib(120)),
            "{kernel}"
        );
        let every =
            |known: fn(&carat::model::MemberSample) -> bool| sample.members.iter().all(known);
        assert_eq!(every(|member| member.rss_peak.is_some()), told.rss_peaks, "{kernel}");
        assert_eq!(every(|member| member.anonymous.is_some()), told.anonymous, "{kernel}");
        let group = sample.cgroup.unwrap_or_else(|| panic!("{kernel}: the tree has its own group"));
        assert_eq!(group.working_set, Some(Bytes(46_000_000)), "{kernel}");
        assert_eq!(group.peak.is_some(), told.cgroup_peak, "{kernel}");
        assert_eq!(group.oom_kills.is_some(), told.cgroup_kills, "{kernel}");
        assert_eq!(group.slab.is_some(), told.slab, "{kernel}");
        let seen = ledger(&root, &members, &HashMap::new());
        assert_eq!(seen.pss, Bytes::from_kib(36_788), "{kernel}");
        assert_eq!(seen.part(PartKind::Stacks).map(|part| part.pss), kib(84), "{kernel}");
        assert_eq!(seen.part(PartKind::CodeAndFiles).map(|part| part.pss), kib(2004), "{kernel}");
    }
}

#[test]
fn before_linux_4_14_the_maps_are_summed_instead() {
    let whole = full(&ProcRoot::new(CAPTURED)).pss.unwrap();
    let (_folder, root) = copy(|name, _| name != "smaps_rollup");
    let sample = full(&root);
    let summed = sample.pss.unwrap();
    // Every mapping is rounded down to whole KiB before it is summed, and there are some twenty each.
    assert!(summed <= whole && whole.0 - summed.0 < 80 * 1024, "{summed} {whole}");
}

#[test]
fn what_an_older_kernel_does_not_say_is_unknown_and_not_nought() {
    let newer = ["RssAnon", "VmSwap", "VmHWM", "SwapPss", "Pss_Anon", "LazyFree"];
    let (_folder, root) = copy(|_, line| !newer.iter().any(|name| line.starts_with(name)));
    let sample = full(&root);
    assert!(sample.pss.is_some());
    assert_eq!(sample.swap, None);
    assert!(sample.members.iter().all(|m| m.anonymous.is_none() && m.rss_peak.is_none()));
}

#[test]
fn a_captured_ledger_adds_up_to_its_kernels_figure() {
    let root = ProcRoot::new(CAPTURED);
    let seen = ledger(&root, &members(&root), &HashMap::new());
    assert_eq!(seen.processes.len(), 3);
    assert!(seen.processes.iter().all(|process| process.basis == Basis::ProcOnly));
    assert!(seen.processes[0].title.starts_with("sh -c sleep 30"));
    let sum: i64 = seen.parts.iter().map(|part| part.pss.0 as i64).sum();
    assert_eq!(sum + seen.unexplained, seen.pss.0 as i64);
    assert!(seen.part(PartKind::CodeAndFiles).is_some());
    assert!(seen.part(PartKind::Stacks).is_some());
    // Nothing is anonymous here but the loader's own and the rounding of each mapping.
    assert!(seen.unexplained_share() < 0.1, "{seen:#?}");
}

#[test]
fn a_process_that_cannot_be_read_is_named_by_its_file() {
    let (folder, root) = copy(|_, _| true);
    let refused = folder.path().join("proc/12636/smaps_rollup");
    // A directory in its place is refused to everybody, root included, though with other words.
    fs::remove_file(&refused).unwrap();
    fs::create_dir(&refused).unwrap();
    let mut sampler = Sampler::new(root.clone(), SampleOptions::default());
    let sample = sampler.full(&members(&root), Duration::from_secs(1));
    assert!(sample.partial);
    assert_eq!(sample.pss, None);
    let refusal = sampler.refusal().unwrap();
    assert!(refusal.contains("12636/smaps_rollup"), "{refusal}");
}
