//! Full disks, and folders that are not writable.

use crate::faults::fake::{FIGURES, experiment, trials};
use crate::faults::score::{Score, ensure, tries};
use crate::outside_ruby::OutsideRuby;
use crate::support::{Folder, finish, wait_until};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const KIB: usize = 1024;

/// A small file system in memory, unmounted at the end.
pub(crate) struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    pub(crate) fn new(path: PathBuf, kib: usize, flags: MountFlags) -> Self {
        fs::create_dir_all(&path).unwrap();
        let options = CString::new(format!("size={kib}k")).unwrap();
        mount("carat-test", &path, "tmpfs", flags, Some(&*options)).unwrap();
        Self { path }
    }

    /// Fills the disk until only so many KiB are free.
    pub(crate) fn fill_until(&self, kib: usize) {
        let filler = self.path.join("filler");
        let _ = fs::remove_file(&filler);
        let seen = rustix::fs::statvfs(&self.path).unwrap();
        let free = (seen.f_bavail * seen.f_frsize) as usize;
        fs::write(filler, vec![0; free.saturating_sub(kib * KIB)]).unwrap();
    }

    /// Frees what [`fill_until`](Self::fill_until) took.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.path.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

const COMPARE: [&str; 7] =
    ["compare", "full.toml", "--fake", FIGURES, "--resume", "-o", "small/full.carat"];

/// A run whose disk is full after `kib`, then another run with enough space.
fn fill_up(
    folder: &Folder,
    small: &SmallDisk,
    kib: usize,
    whole: &[serde_json::Value],
) -> Result<(), String> {
    for name in ["full.carat", "full.carat-journal", "full.html"] {
        let _ = fs::remove_file(small.path.join(name));
    }
    small.fill_until(kib);
    let ran = folder.run(&COMPARE);
    ensure(ran.code != Some(101) && ran.code.is_some(), || format!("{kib} KiB: {ran:?}"))?;
    if ran.code != Some(3) {
        let is_reported = ran.talk.contains("free space") && ran.talk.contains("full.");
        ensure(is_reported, || {
            format!("{kib} KiB: the message does not say what to do: {}", ran.talk)
        })?;
    }
    small.empty();
    if small.path.join("full.carat").exists() {
        let kept = folder.run(&["report", "small/full.carat", "--json"]);
        if kept.code == Some(0) {
            let kept = trials(folder, "small/full.carat");
            ensure(whole.starts_with(&kept), || format!("{kib} KiB: trials changed"))?;
        }
    }
    let ran = folder.run(&COMPARE);
    ensure(ran.code == Some(3), || format!("{kib} KiB: cannot resume: {ran:?}"))?;
    ensure(trials(folder, "small/full.carat") == whole, || {
        format!("{kib} KiB: a different result")
    })?;
    let left = folder.private_directories();
    ensure(left.is_empty(), || format!("{kib} KiB: left {left:?}"))
}

#[test]
fn a_disk_that_is_full_at_any_write_breaks_no_file_and_the_run_can_be_resumed() {
    require!(Mounts);
    let folder = Folder::new("full");
    folder.write("full.toml", &experiment("full"));
    let small = SmallDisk::new(folder.path("small"), 1024, MountFlags::empty());
    folder.run(&COMPARE).assert_code(3);
    let whole = trials(&folder, "small/full.carat");
    let size = fs::metadata(small.path.join("full.carat")).unwrap().len() as usize;
    let page = fs::metadata(small.path.join("full.html")).unwrap().len() as usize;
    // From no space to space for everything, including the journal of the last trial.
    let most = (size + page) / KIB + 40;
    let steps = tries(40).min(24) as usize;
    let mut score = Score::default();
    for step in 0..steps {
        score.count(fill_up(&folder, &small, most * step / (steps - 1), &whole));
    }
    score.lost = "no finished trial; the one that did not fit runs again".into();
    score.finish();
}

#[test]
fn a_folder_that_is_not_writable_is_named_before_anything_runs() {
    require!(Mounts);
    let folder = Folder::new("readonly");
    folder.write("full.toml", &experiment("full"));
    let _small = SmallDisk::new(folder.path("small"), 64, MountFlags::RDONLY);
    let ran = folder.run(&COMPARE);
    ran.assert_code(1).assert_says("small/full.carat").assert_says("permissions");
    let recording = ["record", "--for", "1s", "-o", "small/r.jsonl", "--", "sleep", "9"];
    folder.run(&recording).assert_code(1).assert_says("small/r.json").assert_says("-o");
    folder.assert_nothing_left();
}

#[test]
fn a_disk_that_is_full_for_a_time_costs_a_recording_only_the_samples_of_that_time() {
    require!(Mounts);
    let folder = Folder::new("recordfull");
    let small = SmallDisk::new(folder.path("small"), 256, MountFlags::empty());
    let record = ["record", "--every", "20ms", "--for", "4s", "-o", "small/r.jsonl"];
    // Its log stays empty, so only the recording needs space.
    let arguments = [&record[..], &["--", "sleep", "60"]].concat();
    let path = folder.path("small/r.jsonl");
    let size = || fs::metadata(&path).map_or(0, |seen| seen.len());
    let mut carat = folder.carat(&arguments);
    let carat = carat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the recording starts", || size() > 1024);
    small.fill_until(0);
    let full = size();
    std::thread::sleep(Duration::from_millis(500));
    small.empty();
    wait_until("the recording continues", || size() > full + 4096);
    finish(carat).assert_code(1).assert_says("lines of small/r.jsonl could not be written");
    let kept = carat::store::recording::read(&path).unwrap();
    let longest = kept.samples.windows(2).map(|two| two[1].at_ms - two[0].at_ms).max();
    assert!(longest > Some(200) && kept.end.is_some(), "{longest:?}");
    folder.assert_nothing_left();
}

/// The private directories, with logs and the probe's pages, are on a full file system.
#[test]
fn a_full_temporary_directory_never_kills_the_server() {
    require!(Ruby, Mounts);
    let mut score = Score::default();
    let server = "kept = []; 60.times { kept << 'x' * 400_000; sleep 0.02 }; puts 'lived'";
    for kib in [0, 4, 8, 12, 16, 64] {
        let folder = Folder::new("notmp");
        let small = SmallDisk::new(folder.path("small"), 512, MountFlags::empty());
        small.fill_until(kib);
        let arguments = ["record", "--every", "100ms", "-o", "r.json", "--", "ruby", "-e", server];
        let mut command = folder.carat(&arguments);
        command.env("TMPDIR", Path::new("small"));
        let ran = crate::support::finish(
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let log = fs::read_to_string(folder.path("r.log")).unwrap_or_default();
        let refused = ran.code == Some(1) && ran.talk.contains("TMPDIR");
        score.count(ensure(log.contains("lived") || refused, || {
            format!("{kib} KiB: {log} {ran:?}")
        }));
    }
    score.lost = "the probe's figures, if its page does not fit".into();
    score.finish();
}

#[test]
fn a_file_beyond_the_limit_of_file_sizes_is_an_error_and_leaves_nothing_behind() {
    require!(Ruby);
    let folder = Folder::new("file-limit");
    let ruby = OutsideRuby::start_command(Command::new("ruby"));
    let pid = ruby.pid.to_string();
    folder.write("config.ru", "run ->(_) { [200, {}, []] }");
    for (written, arguments) in [
        ("dump.jsonl", &["heap-dump", pid.as_str(), "-o", "dump.jsonl"][..]),
        ("page.html", &["explain", &pid, "-o", "page.html"]),
        ("carat.toml", &["init", "."]),
    ] {
        let names = || {
            let mut names: Vec<_> = fs::read_dir(folder.path(""))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        let before = names();
        let carat = folder.carat(arguments);
        let mut limited = Command::new("sh");
        // The unit is 512 bytes (POSIX, ulimit).
        limited.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(carat.get_program());
        limited.args(carat.get_args()).current_dir(folder.path(""));
        let ran = limited.output().unwrap();
        let talk = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {ran:?}");
        assert!(talk.contains("cannot write") && talk.contains(written), "{talk}");
        assert_eq!(names(), before, "{arguments:?}");
    }
}
