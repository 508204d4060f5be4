//! `carat ps` on real Rubies, and in a container.

use crate::support::{Folder, Ran, finish, wait_until};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A master and a worker by their titles, which a file says are ready.
const CLUSTER: &str = "Process.setproctitle('puma 9.9.9 (tcp://[::]:1) [blog]'); \
    fork { Process.setproctitle(%(puma: cluster worker 0: #{Process.ppid} [blog])); \
    File.write(ARGV[0], Process.pid.to_s); sleep }; sleep";

/// The cluster, which is ended with the test.
struct Cluster {
    master: Child,
    worker: u32,
}

impl Cluster {
    fn start(folder: &Folder) -> Self {
        let ready = folder.path("worker");
        let mut command = Command::new("ruby");
        command.args(["-e", CLUSTER]).arg(&ready).env_remove("RUBYOPT").stdin(Stdio::null());
        let master = command.spawn().unwrap();
        let pid = || fs::read_to_string(&ready).ok().and_then(|text| text.parse::<u32>().ok());
        let mut worker = None;
        wait_until("the worker runs", || {
            worker = pid();
            worker.is_some()
        });
        Self { master, worker: worker.unwrap() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let worker = rustix::process::Pid::from_raw(i32::try_from(self.worker).unwrap()).unwrap();
        let _ = rustix::process::kill_process(worker, rustix::process::Signal::KILL);
        let _ = self.master.kill();
        let _ = self.master.wait();
    }
}

fn json(ran: &Ran) -> Value {
    ran.assert_code(0);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.out))
}

#[test]
fn a_process_that_never_was_is_not_said_to_have_ended() {
    // Above the largest number that Linux gives (proc(5), pid_max).
    let ran = Folder::new("ps-nobody").run(&["ps", "5000000"]);
    ran.assert_code(1).assert_says("there is no process 5000000; `carat ps` lists the Rubies here");
}

#[test]
fn a_tree_is_found_from_any_of_its_processes_and_a_worker_finds_what_it_was_forked_from() {
    require!(Ruby);
    let folder = Folder::new("ps");
    let cluster = Cluster::start(&folder);
    let worker = cluster.worker.to_string();
    let found = json(&folder.run(&["ps", &worker, "--json"]));
    assert_eq!(found["schema"], "carat.ps/1");
    let tree = &found["trees"][0];
    assert_eq!(
        (&tree["pid"], &tree["workers"]),
        (&cluster.master.id().into(), &1.into()),
        "{tree}"
    );
    assert_eq!(tree["server"]["version"], "9.9.9");
    assert_eq!(tree["processes"][1]["forked_from"], cluster.master.id(), "{tree}");
    assert!(tree["pss"].as_u64().unwrap() > 1_000_000, "{tree}");
    let version = Command::new("ruby").args(["-e", "print RUBY_VERSION"]).output().unwrap();
    assert_eq!(tree["ruby"], *String::from_utf8(version.stdout).unwrap(), "{tree}");
    let all = folder.run(&["ps"]);
    all.assert_code(0).assert_says("puma 9.9.9 · 1 worker · blog");
    folder.run(&["ps", &worker]).assert_says("master").assert_says("Next  carat explain ");
    let unshared = folder.run(&["explain", &worker, "--unshared"]);
    unshared.assert_code(0).assert_says(&format!("Why process {worker} has private memory"));
    let own = std::process::id().to_string();
    folder.run(&["ps", &own]).assert_code(1).assert_says("is in no Ruby tree");
}

/// Runs in a pid namespace of its own, where `/` can only be read and nothing in `/tmp` is executed.
const CONTAINER: &str = r#"set -e
mount -t tmpfs -o noexec,nosuid tmpfs /tmp
mount -o remount,bind,ro /
exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all env -i PATH="$PATH" sh -c '
ruby -e "File.write(%(/tmp/ready), %(1)); sleep" & pid=$!
until [ -s /tmp/ready ]; do sleep 0.05; done
"$0" ps && "$0" explain $pid; status=$?; kill $pid; exit $status' "$1"
"#;

/// The program where any user can run it, and not below `/tmp`.
fn program_for_all() -> Option<PathBuf> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_carat"));
    let mut readable = Command::new("setpriv");
    readable.args(["--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x"]).arg(&program);
    let is_hidden = program.starts_with("/tmp");
    readable.status().is_ok_and(|status| status.success() && !is_hidden).then_some(program)
}

#[test]
fn without_root_a_home_and_a_place_to_write_the_trees_and_the_diagnosis_are_there_all_the_same() {
    require!(Ruby, Root, Mounts);
    let Some(program) = program_for_all() else {
        crate::harness::skip("another user cannot run the program where it was built")
    };
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", CONTAINER, "sh"]);
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(command.spawn().unwrap());
    ran.assert_code(0).assert_says("ruby -e").assert_says("glibc").assert_says("next: carat");
    ran.assert_says("size     ").assert_says("Ruby slots, live").assert_says("Next     carat ");
}

/// A root with the program, what it is linked with where that is not everything, and `/proc`, as of an image `FROM scratch`. A Ruby
/// of the same user runs beside it.
const FROM_SCRATCH: &str = r#"set -e
mount -t tmpfs tmpfs /tmp
mkdir -p /tmp/root/proc
for file in $(ldd "$1" | grep -o '/[^ )]*') "$1"; do
  mkdir -p "/tmp/root${file%/*}"
  touch "/tmp/root$file"
  mount --bind "$file" "/tmp/root$file"
done
mount -t proc proc /tmp/root/proc
setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
  ruby -e 'KEPT = (1..50_000).map(&:to_s); File.write("/tmp/ready", "1"); sleep' & pid=$!
until [ -s /tmp/ready ]; do sleep 0.05; done
carat() { env -i "$(command -v chroot)" --userspec=65534:65534 /tmp/root "$program" "$@"; }
program=$1
carat ps && carat explain $pid; status=$?
kill $pid
exit $status
"#;

#[test]
fn in_a_root_without_anything_else_a_server_of_the_same_user_is_explained() {
    require!(Ruby, Root, Mounts);
    let Some(program) = program_for_all() else {
        crate::harness::skip("another user cannot run the program where it was built")
    };
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", FROM_SCRATCH, "sh"]);
    command.arg(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(command.spawn().unwrap());
    ran.assert_code(0).assert_says("ruby -e").assert_says("next: carat");
    ran.assert_says("malloc, live").assert_says("String").assert_says("Next     carat ");
}
