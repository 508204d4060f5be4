//! `carat watch` and `carat ps` where files, memory and clocks are not as usual.

use crate::faults::disk::SmallDisk;
use crate::support::{Folder, Group, wait_until};
use crate::watch::{Leaking, end, last, report, sampled, watch};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::mount::MountFlags;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The user `nobody`, who has no rights.
const NOBODY: u32 = 65_534;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

fn talk(folder: &Folder) -> String {
    fs::read_to_string(folder.path("talk")).unwrap_or_default()
}

/// Waits until the watch says something.
fn says(folder: &Folder, text: &str) {
    wait_until(text, || talk(folder).contains(text));
}

/// The moments of the samples of the only process of a period.
fn moments(period: &Value) -> Vec<u64> {
    let samples = period["processes"][0]["samples"].as_array().unwrap().iter();
    samples.map(|sample| sample["at_ms"].as_u64().unwrap()).collect()
}

#[test]
fn a_store_that_is_removed_moved_or_replaced_while_it_is_written_loses_nothing_of_another_program()
{
    require!(Ruby);
    let folder = Folder::new("watch-store");
    let ruby = Leaking::start(&folder, "begin-store", None, "1");
    let mut watch = watch(&folder, "begin-store");
    let (pid, store) = (ruby.child.id(), folder.path("watch.db"));
    sampled(&folder, pid, 3);
    fs::remove_file(&store).unwrap();
    says(&folder, "was removed or moved while it was written to; another store was begun");
    sampled(&folder, pid, 3);
    fs::rename(&store, folder.path("kept.db")).unwrap();
    sampled(&folder, pid, 3);
    let kept = folder.run(&["report", "kept.db", "--json"]);
    let kept: Value = serde_json::from_str(&kept.assert_code(0).out).unwrap();
    assert!(moments(&kept).len() >= 3, "{kept}");
    fs::rename(folder.write("photo", "a photo"), &store).unwrap();
    says(&folder, "another file is there now");
    assert_eq!(fs::read_to_string(&store).unwrap(), "a photo");
    let before = now_ms();
    fs::remove_file(&store).unwrap();
    says(&folder, "nothing that was kept is lost");
    sampled(&folder, pid, 3);
    assert!(moments(&report(&folder))[0] < before, "what could not be written was kept");
    end(&mut watch);
}

#[test]
fn a_disk_that_is_full_for_a_time_costs_a_watch_no_sample() {
    require!(Ruby, Mounts);
    let folder = Folder::new("watch-full");
    let small = SmallDisk::new(folder.path("small"), 2048, MountFlags::empty());
    let ruby = Leaking::start(&folder, "begin-full", None, "1");
    let arguments = ["--every", "200ms", "--budget", "100", "--match", "begin-full"];
    let arguments = [&["watch", "--store", "small/watch.db"][..], &arguments].concat();
    let mut command = folder.carat(&arguments);
    command.stdout(Stdio::null()).stderr(fs::File::create(folder.path("talk")).unwrap());
    let mut watch = Group::start(command);
    let stored = || {
        let ran = folder.run(&["report", "small/watch.db", "--json"]);
        serde_json::from_str::<Value>(&ran.out).ok().map(|period| moments(&period))
    };
    let has_samples = || stored().is_some_and(|moments| moments.len() >= 3);
    says(&folder, "1 Ruby process followed");
    wait_until("there are samples", has_samples);
    small.fill_until(0);
    says(&folder, "samples are kept in memory meanwhile");
    let full = now_ms();
    std::thread::sleep(Duration::from_secs(2));
    let free = now_ms();
    small.empty();
    says(&folder, "nothing that was kept is lost");
    let meanwhile =
        |moments: Vec<u64>| moments.iter().filter(|at| (full..free).contains(at)).count();
    wait_until("the samples of that time are there", || stored().map(meanwhile) >= Some(3));
    drop(ruby);
    end(&mut watch);
}

/// Becomes unreadable for its own user once a file is there, as a program that changes its user, and grows by 60 MB.
const HIDING: &str = "require 'fiddle'; \
    int = Fiddle::TYPE_INT; long = Fiddle::TYPE_LONG; \
    prctl = Fiddle::Function.new(Fiddle.dlopen(nil)['prctl'], [int, long], int); \
    sleep 0.05 until File.exist?(ARGV[0]); \
    $not_dumpable = prctl.call(4, 0); $kept = (0...30_000).map { 'x' * 2000 }; sleep";

#[test]
fn a_server_that_cannot_be_read_any_more_is_followed_and_what_was_read_before_is_its_last_words() {
    require!(Ruby, Root);
    let folder = Folder::new("watch-hidden");
    let own = folder.path("nobody");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let hide = folder.path("begin-hidden");
    let as_nobody = |mut command: Command| {
        command.uid(NOBODY).gid(NOBODY).env_remove("RUBYOPT").stdout(Stdio::null());
        Group::start(command)
    };
    let mut ruby = Command::new("ruby");
    ruby.args(["-e", HIDING]).arg(&hide);
    let mut ruby = as_nobody(ruby);
    let arguments = ["--every", "200ms", "--budget", "100", "--match", "begin-hidden"];
    let arguments = [&["watch", "--store", "nobody/watch.db"][..], &arguments].concat();
    let mut command = folder.carat(&arguments);
    command.stderr(fs::File::create(folder.path("talk")).unwrap());
    let mut watch = as_nobody(command);
    let period = || -> Option<Value> {
        let ran = folder.run(&["report", "nobody/watch.db", "--json"]);
        serde_json::from_str(&ran.out).ok()
    };
    let samples = || period().map_or(0, |period| moments(&period).len());
    says(&folder, "1 Ruby process followed");
    wait_until("it was sampled", || samples() >= 3);
    fs::write(&hide, "").unwrap();
    says(&folder, "the memory of 1 process cannot be read: cannot open /proc/");
    let before = samples();
    wait_until("it is sampled all the same", || samples() > before + 2);
    ruby.0.kill().unwrap();
    ruby.0.wait().unwrap();
    let words = || folder.run(&["watch", "last", "--store", "nobody/watch.db"]);
    wait_until("its end is there", || words().out.contains("RSS "));
    let later = "unknown    a later reading: cannot open /proc/";
    words()
        .assert_says("malloc, live")
        .assert_says(later)
        .assert_says("the process is not dumpable");
    assert!(!words().out.contains("nothing by more than"), "{}", words().out);
    end(&mut watch);
}

/// As lxcfs shows a container that was started a moment ago, on a machine that runs for days.
const IN_A_CONTAINER: &str =
    r#"mount --bind "$0/stat" /proc/stat && mount --bind "$0/uptime" /proc/uptime && exec "$@""#;

#[test]
fn the_uptime_of_a_container_changes_neither_the_age_of_a_server_nor_which_are_found() {
    require!(Ruby, Mounts);
    let folder = Folder::new("watch-lxcfs");
    folder.write("stat", &format!("cpu 1 0 0 0\nbtime {}\n", now_ms() / 1000 - 5));
    folder.write("uptime", "5.00 5.00\n");
    let in_a_container = |arguments: &[&str]| {
        let carat = folder.carat(arguments);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", IN_A_CONTAINER]).arg(folder.path(""));
        command.arg(carat.get_program()).args(arguments).current_dir(folder.path(""));
        command.env("CARAT_TEST_MARK", folder.mark()).stdin(Stdio::null());
        command
    };
    let begun = now_ms();
    let first = Leaking::start(&folder, "begin-lxcfs-1", None, "1");
    let mut command = in_a_container(&["ps", &first.child.id().to_string(), "--json"]);
    let found = command.output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let since = found["trees"][0]["since_ms"].as_u64().unwrap();
    // A start is known to a tick of 10 ms.
    assert!((begun - 20..=now_ms()).contains(&since), "{since} is not after {begun}: {found}");
    let arguments = ["--every", "200ms", "--budget", "100", "--match", "begin-lxcfs"];
    let arguments = [&["watch", "--store", "watch.db"][..], &arguments].concat();
    let mut command = in_a_container(&arguments);
    command.stdout(Stdio::null()).stderr(fs::File::create(folder.path("talk")).unwrap());
    let mut watch = Group::start(command);
    sampled(&folder, first.child.id(), 2);
    let second = Leaking::start(&folder, "begin-lxcfs-2", None, "1");
    sampled(&folder, second.child.id(), 2);
    end(&mut watch);
}

/// Keeps 100 MB, and starts a program by posix_spawn(3) with a pipe without a writer as its input: until there is one, the child runs
/// in the memory of its parent, which waits in vfork(2).
const IN_VFORK: &str = r#"
require 'fiddle'
$kept = (0...50_000).map { 'x' * 2000 }
call = lambda do |name, *values|
  types = values.map { Fiddle::TYPE_VOIDP }
  Fiddle::Function.new(Fiddle.dlopen(nil)[name], types, Fiddle::TYPE_INT).call(*values)
end
actions = Fiddle.malloc(256)
call['posix_spawn_file_actions_init', actions]
call['posix_spawn_file_actions_addopen', actions, 0, ARGV[0], 0, 0]
words = %w[sleep 60].map { |word| Fiddle::Pointer[word] }
list = [*words.map(&:to_i), 0].pack('J*')
call['posix_spawnp', Fiddle.malloc(4), 'sleep', actions, 0, list, [0].pack('J')]
sleep
"#;

#[test]
fn a_child_that_runs_in_the_memory_of_its_parent_is_counted_by_no_command() {
    require!(Ruby);
    let folder = Folder::new("watch-vfork");
    let pipe = folder.path("begin-vfork");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let mut command = Command::new("ruby");
    command.arg(folder.write("vfork.rb", IN_VFORK)).arg(&pipe).env_remove("RUBYOPT");
    let ruby = Group::start(command);
    let pid = ruby.0.id().to_string();
    let children = format!("/proc/{pid}/task/{pid}/children");
    wait_until("there is a child", || !fs::read_to_string(&children).unwrap().trim().is_empty());
    let mut watch = watch(&folder, "begin-vfork");
    sampled(&folder, ruby.0.id(), 8);
    let period = report(&folder);
    assert_eq!(period["processes"].as_array().unwrap().len(), 1, "{period}");
    let found = folder.run(&["ps", &pid, "--json"]);
    let found: Value = serde_json::from_str(&found.assert_code(0).out).unwrap();
    let tree = &found["trees"][0];
    assert_eq!(tree["processes"].as_array().unwrap().len(), 1, "{tree}");
    let is_once = |bytes: &Value| (100_000_000..190_000_000).contains(&bytes.as_u64().unwrap());
    assert!(is_once(&tree["pss"]), "{tree}");
    let recorded = ["record", "--for", "1s", "--every", "200ms", "-o", "r.jsonl", "--pid", &pid];
    folder.run(&recorded).assert_code(0);
    let kept = carat::store::recording::read(&folder.path("r.jsonl")).unwrap();
    assert!(kept.samples.iter().all(|sample| sample.processes == 1), "{:?}", kept.samples);
    let explained = folder.run(&["explain", &pid]);
    explained.assert_code(0).assert_says("(PSS) in 1 process").assert_says("\nlargest  malloc");
    // Now it executes its program, and is a process like others.
    drop(fs::OpenOptions::new().write(true).open(&pipe).unwrap());
    let processes = || {
        let found = folder.run(&["ps", &pid, "--json"]);
        let found: Value = serde_json::from_str(&found.assert_code(0).out).unwrap();
        found["trees"][0]["processes"].as_array().unwrap().len()
    };
    wait_until("it counts", || processes() == 2);
    drop(ruby);
    last(&folder, pid.parse().unwrap());
    end(&mut watch);
}
