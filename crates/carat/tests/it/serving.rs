//! Settings reach the processes that serve, whoever starts them. `exec --verify` and a trial of `compare` agree on six servers.

use crate::exec_verify::{body_at, is_finding};
use crate::support::{Folder, Group, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const SETTINGS: [&str; 3] = ["allocator=jemalloc", "trim=full-gc", "gc.malloc_limit=8388608"];

/// Writes down what each process that answers was started with, and what a program gets that it starts.
const RACKUP: &str = r#"
settings = /^(?:LD_PRELOAD|RUBY_GC_\w+|MALLOC_\w+|CARAT_(?:RUNTIME|SETTINGS|VARIABLES))(?==)/
delivered = lambda do
  scrub = CaratRuntime.setting("scrub") if defined?(CaratRuntime)
  [File.read("/proc/self/maps").include?("jemalloc"), scrub && scrub.removed["RUBY_GC_MALLOC_LIMIT"],
   defined?(CaratRuntime) && !CaratRuntime.setting("trim").nil?, IO.popen(["env"], &:read).scan(settings)]
end
run lambda { |_env|
  # Renamed, because a server may be killed while it writes. Its threads answer at the same time.
  seen = ENV.fetch("SEEN")
  own = [seen, Process.pid, Thread.current.object_id].join(".")
  File.write(own, delivered.call.inspect)
  File.rename(own, File.join(seen, Process.pid.to_s))
  [200, { "content-type" => "text/plain" }, ["served"]]
}
"#;
/// What a process of the server writes down with the settings, and without.
const DELIVERED: &str = r#"[true, "8388608", true, []]"#;
const NOT_DELIVERED: &str = "[false, nil, false, []]";

/// A folder in which servers run. Daemons leave the group and the session of the test, but not this folder.
pub(crate) struct Site {
    pub(crate) folder: Folder,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = Folder::new("serving");
        folder.write("config.ru", RACKUP);
        folder.write("unicorn.rb", "worker_processes 2\npreload_app true\n");
        folder.write(
            "Procfile",
            "web: puma -b tcp://127.0.0.1:$PORT -e production config.ru\nidle: sleep 1000\n",
        );
        Self { folder }
    }

    /// A folder in which processes write down what they were started with.
    pub(crate) fn seen(&self, name: &str) -> String {
        let path = self.folder.path(name);
        fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    }

    /// What the processes have written down.
    fn delivered(&self, name: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.folder.path(name)).unwrap();
        entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
    }

    /// Processes whose working directory is this folder, or that have its mark.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let here = self.folder.path("").canonicalize().unwrap();
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_here = |pid: &u32| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|found| found.starts_with(&here))
        };
        pids.filter(is_here)
            .chain(self.folder.pids())
            .filter(|pid| *pid != std::process::id())
            .collect()
    }

    pub(crate) fn signal_all(&self, signal: rustix::process::Signal) {
        let pids = self.processes().into_iter();
        for pid in pids.filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.signal_all(rustix::process::Signal::KILL);
    }
}

/// What `exec --verify` says about the command, which serves at `port`, and what its processes were started with.
fn verified(site: &Site, command: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let port = carat::target::free_port().unwrap();
    let (number, dir) = (port.to_string(), site.folder.path("").display().to_string());
    let command: Vec<String> = command
        .iter()
        .map(|word| word.replace("{port}", &number).replace("{dir}", dir.trim_end_matches('/')))
        .collect();
    let mut arguments = vec!["exec", "--verify"];
    arguments.extend(SETTINGS);
    arguments.push("--");
    arguments.extend(command.iter().map(String::as_str));
    let mut carat = site.folder.carat(&arguments);
    carat.env("SEEN", site.seen("executed")).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Group::start(carat);
    // The pipe stays open, because a server that cannot write to stderr may end.
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> =
        lines.by_ref().filter(|line| is_finding(line)).take(SETTINGS.len()).collect();
    wait_until("the server answers", || body_at(port, "/").is_some());
    site.signal_all(rustix::process::Signal::TERM);
    wait_until("the server has ended", || {
        let _ = server.0.try_wait();
        site.processes().is_empty()
    });
    (said, site.delivered("executed"))
}

/// Measures the command without and with the settings. Returns what carat says, and what the processes of each variant were
/// started with.
fn measured(site: &Site, command: &[&str]) -> (String, [BTreeSet<String>; 2]) {
    let settings: Vec<String> = SETTINGS
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .map(|(name, value)| format!("\"{name}\" = \"{value}\""))
        .collect();
    let experiment = format!(
        "name = 'servers'\n[server]\ncommand = {command:?}\nready = {{ http = '/', within = '60s' }}\n\
         [load.http]\npath = '/'\nconnections = 2\nrequests = 40\n\
         [[variant]]\nname = 'default'\nenv = {{ SEEN = '{}' }}\n\
         [[variant]]\nname = 'tuned'\nenv = {{ SEEN = '{}' }}\nsettings = {{ {} }}\n\
         [trials]\nmax = 1\n",
        site.seen("default"),
        site.seen("tuned"),
        settings.join(", ")
    );
    site.folder.write("servers.toml", &experiment);
    let ran = site.folder.run(&["compare", "servers.toml"]);
    ran.assert_code(3);
    let results = site.folder.run(&["report", "servers.carat", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&results.assert_code(0).out).unwrap();
    for trial in json["results"]["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "ok", "{trial}");
    }
    let said = format!("{}{}{}", ran.out, ran.talk, results.out);
    (said, [site.delivered("default"), site.delivered("tuned")])
}

fn exec_and_compare_agree(command: &[&str]) {
    let site = Site::new();
    let with = BTreeSet::from([DELIVERED.to_owned()]);
    let (said, executed) = verified(&site, command);
    for (line, setting) in said.iter().zip(SETTINGS) {
        assert!(line.contains(" applied: "), "{setting}: {said:?}");
    }
    assert_eq!(said.len(), SETTINGS.len(), "{said:?}");
    assert_eq!(executed, with);
    let (said, [default, tuned]) = measured(&site, command);
    for other in ["NOT APPLIED", "not applied yet", "unknown whether"] {
        assert!(!said.contains(other), "{said}");
    }
    assert_eq!(default, BTreeSet::from([NOT_DELIVERED.to_owned()]));
    assert_eq!(tuned, with);
}

#[test]
fn exec_and_compare_agree_on_a_puma_behind_a_shell() {
    require!(Ruby, Puma, Jemalloc);
    let puma = "cd . && puma -b tcp://127.0.0.1:{port} -e production config.ru";
    exec_and_compare_agree(&["sh", "-c", puma]);
}

#[test]
fn exec_and_compare_agree_on_a_cluster_of_puma() {
    require!(Ruby, Puma, Jemalloc);
    exec_and_compare_agree(&[
        "puma",
        "-w",
        "2",
        "--preload",
        "-b",
        "tcp://127.0.0.1:{port}",
        "-e",
        "production",
    ]);
}

#[test]
fn exec_and_compare_agree_on_a_unicorn_in_the_background() {
    require!(Ruby, Program("unicorn"), Jemalloc);
    exec_and_compare_agree(&["unicorn", "-D", "-c", "unicorn.rb", "-l", "127.0.0.1:{port}"]);
}

#[test]
fn exec_and_compare_agree_on_two_thins_in_the_background() {
    require!(Ruby, Program("thin"), Jemalloc);
    exec_and_compare_agree(&[
        "thin",
        "start",
        "-s",
        "2",
        "-d",
        "-a",
        "127.0.0.1",
        "-p",
        "{port}",
        "-P",
        "{dir}/thin.pid",
        "-l",
        "{dir}/thin.log",
        "-R",
        "config.ru",
    ]);
}

/// Passenger without nginx, with two workers; `{port}` and `{dir}` are filled in.
pub(crate) const PASSENGER: [&str; 19] = [
    "passenger",
    "start",
    "--engine",
    "builtin",
    "-a",
    "127.0.0.1",
    "-p",
    "{port}",
    "--max-pool-size",
    "2",
    "--min-instances",
    "2",
    "-e",
    "production",
    "--pid-file",
    "{dir}/passenger.pid",
    "--log-file",
    "{dir}/passenger.log",
    "--disable-security-update-check",
];

#[test]
fn exec_and_compare_agree_on_passenger() {
    require!(Ruby, Program("passenger"), Jemalloc);
    exec_and_compare_agree(&PASSENGER);
}

#[test]
fn exec_and_compare_agree_on_foreman() {
    require!(Ruby, Puma, Program("foreman"), Jemalloc);
    exec_and_compare_agree(&["foreman", "start", "-f", "Procfile", "-p", "{port}"]);
}

/// A launcher that gives its server an environment of its own.
const LOSES: &str = r#"
own = ENV.to_h.reject { |name, _| name.match?(/CARAT_(?!TEST|TOKEN|REQUIRE_ALL)|RUBYOPT|LD_PRELOAD/) }
server = "require 'socket'; s = TCPServer.new('127.0.0.1', 0); sleep"
Process.wait(spawn(own, "ruby", "-e", server, unsetenv_others: true))
"#;

#[test]
fn a_server_that_has_lost_the_settings_is_named_although_its_launcher_has_them() {
    require!(Ruby, Jemalloc);
    let site = Site::new();
    site.folder.write("launcher.rb", LOSES);
    let mut carat =
        site.folder.carat(&["exec", "--verify", "allocator=jemalloc", "--", "ruby", "launcher.rb"]);
    carat.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut launcher = Group::start(carat);
    let mut lines = BufReader::new(launcher.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| is_finding(line)).unwrap();
    assert!(said.contains("allocator=jemalloc NOT APPLIED: lost in pid "), "{said}");
    assert!(said.contains(" (ruby -e require 'socket';"), "{said}");
}

#[test]
fn a_ruby_that_works_and_never_listens_is_verified_too() {
    require!(Ruby);
    let site = Site::new();
    let mut carat =
        site.folder.carat(&["exec", "--verify", "trim=full-gc", "--", "ruby", "-e", "sleep"]);
    carat.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut worker = Group::start(carat);
    let mut lines = BufReader::new(worker.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find(|line| is_finding(line)).unwrap();
    assert!(said.contains("trim=full-gc applied: "), "{said}");
}

#[test]
fn what_ends_at_once_is_not_verified() {
    require!(Ruby);
    let site = Site::new();
    let said =
        site.folder.run(&["exec", "--verify", "trim=full-gc", "--", "ruby", "-e", "sleep 1"]);
    said.assert_code(0).assert_says("carat verify: not verified: the server ended before");
    assert!(!said.talk.contains("applied"), "{}", said.talk);
}
