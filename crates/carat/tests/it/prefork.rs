//! The profile `prefork` on a preloaded Puma cluster: it takes effect, and survives what happens to such a cluster.

use crate::exec_verify::{VerifiedPuma, body_at};
use crate::memory_group::MemoryGroup;
use crate::support::{Folder, Group, signal, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

const PROFILE: [&str; 2] = ["--profile", "prefork"];
const SETTINGS: [&str; 5] =
    ["allocator=", "prepare_fork=", "fill_call_caches=", "worker_growth=", "main_stack="];

/// Those that act on an application which is loaded before the fork.
const FOR_PRELOADED: [&str; 3] = ["prepare_fork=", "fill_call_caches=", "worker_growth="];

fn cluster(how: &[&str]) -> VerifiedPuma {
    verified_cluster(how, &[])
}

/// A cluster in which all settings are applied, but for those of `not_applied`. Ruby 3.3 alone needs one of them.
fn verified_cluster(how: &[&str], not_applied: &[&str]) -> VerifiedPuma {
    let puma = [&["-w", "2"], how, &["config.ru"]].concat();
    let mut cluster = VerifiedPuma::start(&PROFILE, &puma);
    let found = cluster.verified(SETTINGS.len());
    for setting in SETTINGS {
        let line = found.iter().find(|line| line.contains(setting)).unwrap();
        let is_applied = line.contains(" applied: ");
        let is_needless = line.contains("fill_call_caches=on not needed");
        assert_eq!(
            is_applied || is_needless,
            !not_applied.contains(&setting) || is_needless,
            "{line}"
        );
        let why = "NOT APPLIED: workers load the application themselves";
        assert!(is_applied || is_needless || line.contains(why), "{line}");
    }
    cluster
}

/// The worker that answers; the application's text ends with its pid.
fn worker(cluster: &VerifiedPuma) -> Option<i32> {
    let body = cluster.body()?;
    assert!(body.starts_with("[[], [], "), "carat's variables are left: {body}");
    body.trim_end_matches(']').rsplit(' ').next()?.parse().ok()
}

/// The workers that answer, until there are two which are not among `old`.
fn two_workers(cluster: &VerifiedPuma, old: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    wait_until("two new workers answer", || {
        found.extend(worker(cluster).filter(|pid| !old.contains(pid)));
        found.len() == 2
    });
    found
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_worker_that_was_killed_is_replaced_and_the_others_answer_meanwhile() {
    require!(Ruby, Puma, Jemalloc);
    let cluster = cluster(&["--preload"]);
    let before = two_workers(&cluster, &BTreeSet::new());
    let killed = *before.first().unwrap();
    kill(killed);
    wait_until("another worker answers", || {
        worker(&cluster).is_some_and(|pid| !before.contains(&pid))
    });
    cluster.stop();
}

#[test]
fn a_worker_that_the_oom_killer_kills_is_replaced_and_the_others_answer_meanwhile() {
    require!(Ruby, Puma, Jemalloc);
    let group = MemoryGroup::new("worker", 80_000_000);
    let cluster = cluster(&["--preload"]);
    let before = two_workers(&cluster, &BTreeSet::new());
    assert_eq!(cluster.body_of(&format!("/fill?{}", group.path.display())), None);
    assert_eq!(group.oom_kills(), 1);
    assert!(worker(&cluster).is_some());
    wait_until("another worker answers", || {
        worker(&cluster).is_some_and(|pid| !before.contains(&pid))
    });
    cluster.stop();
}

/// A server whose workers end after five answers each and are forked again, until a thousand have served.
const THOUSAND_FORKS: &str = r##"
require "socket"
inherited = Array.new(100_000) { |n| [n, n.to_s] }
server = TCPServer.new("127.0.0.1", Integer(ARGV.fetch(0)))
$stdout.write("listens\n")
$stdout.flush
work = lambda do
  5.times do
    client = server.accept
    nil until client.gets == "\r\n"
    made = Array.new(2_000) { |n| { n => inherited[n].join } }
    client.write("HTTP/1.0 200 OK\r\n\r\n#{Process.pid} #{made.size}")
    client.close
  end
  GC.start
  exit!(0)
end
begun = Array.new(4) { fork(&work) }.size
1_000.times do
  _, status = Process.wait2
  abort("a worker ended with #{status}") unless status.success?
  next if begun == 1_000
  fork(&work)
  begun += 1
end
"##;

#[test]
fn a_thousand_forks_under_load_lose_no_request() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("forks");
    let script = folder.write("forks.rb", THOUSAND_FORKS).display().to_string();
    let port = carat::target::free_port().unwrap();
    let settings = ["exec", "--profile", "prefork", "calloc_arena=on"];
    let mut command = folder.carat(&settings);
    command.args(["--", "ruby", &script, &port.to_string()]).stdout(Stdio::piped());
    let mut server = Group::start(command);
    let mut listens = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut listens).unwrap();
    let client = move || (0..1_250).map(|_| body_at(port, "/")).collect::<Vec<_>>();
    let clients: Vec<_> = (0..4).map(|_| thread::spawn(client)).collect();
    let answers = clients.into_iter().flat_map(|client| client.join().unwrap());
    let workers: BTreeSet<String> = answers
        .map(|answer| {
            let answer = answer.unwrap();
            answer.strip_suffix(" 2000").unwrap_or_else(|| panic!("{answer}")).to_owned()
        })
        .collect();
    assert_eq!(workers.len(), 1_000);
    assert!(server.0.wait().unwrap().success());
    folder.assert_nothing_left();
}

#[test]
fn a_restart_and_workers_that_are_forked_again_lose_nothing() {
    require!(Ruby, Puma, Jemalloc);
    // Without preloading, because Puma 5 forks again only then: the first worker loads the application.
    let cluster = cluster(&["-C", "unloaded.rb", "--fork-worker"]);
    let first = two_workers(&cluster, &BTreeSet::new());
    // Puma forks every worker but the first again, from the first.
    signal(&cluster.server.0, Signal::URG);
    wait_until("a worker of the next generation answers", || {
        worker(&cluster).is_some_and(|pid| !first.contains(&pid))
    });
    cluster.restart();
    two_workers(&cluster, &first);
    cluster.stop();
}

#[test]
fn workers_of_a_server_that_does_not_preload_are_restarted_in_a_phase() {
    require!(Ruby, Puma, Jemalloc);
    let cluster = verified_cluster(&["-C", "unloaded.rb"], &FOR_PRELOADED);
    let first = two_workers(&cluster, &BTreeSet::new());
    signal(&cluster.server.0, Signal::USR1);
    two_workers(&cluster, &first);
    cluster.stop();
}

#[test]
fn pages_of_a_real_rails_application_are_requested_before_the_fork() {
    require!(Ruby, Puma, SqliteGem);
    // Active Record discards its connections in a forked child and starts a thread there.
    let mut blog = VerifiedPuma::of_workload("blog", &["warm=4", "prepare_fork=full"]);
    let found = blog.verified(2);
    for setting in ["warm=4 applied", "prepare_fork=full applied"] {
        assert!(found.iter().any(|line| line.contains(setting)), "{setting}: {found:?}");
    }
    assert!(blog.wait_for_body("the blog answers", |_| true).contains("<article>"));
    blog.stop();
}
