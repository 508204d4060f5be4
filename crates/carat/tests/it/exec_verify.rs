//! `carat exec --verify` leaves nothing of itself in the environment of the server, of its restarts and of its workers.

use crate::runtime::write_parts;
use crate::support::{Folder, Group, signal, wait_until};
use carat_ruby::RubyVersion;
use carat_ruby::version::V3_3;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};

/// Answers with the names of carat's variables: its own and those of a program that it starts. For `/fill?GROUP` the worker
/// goes into a control group and fills it.
const RACKUP: &str = r#"
fill = lambda do |group|
  File.write(File.join(group, "cgroup.procs"), Process.pid.to_s)
  kept = []
  loop { kept << "x" * 1_000_000 }
end
names = ->(env) { env.keys.grep(/CARAT|LD_PRELOAD|RUBYOPT/).sort - ["CARAT_TEST_MARK"] }
run lambda { |env|
  fill.call(env["QUERY_STRING"]) if env["PATH_INFO"] == "/fill"
  child = IO.popen(["env", "-0"], &:read).split("\0").to_h { |line| line.split("=", 2) }
  [200, { "Content-Type" => "text/plain" }, [[names.call(ENV), names.call(child), Process.pid].inspect]]
}
"#;

/// Puma under `carat exec`, on a port of its own.
pub(crate) struct VerifiedPuma {
    pub(crate) server: Group,
    pub(crate) folder: Folder,
    port: u16,
}

impl VerifiedPuma {
    pub(crate) fn start(options: &[&str], puma: &[&str]) -> Self {
        let folder = Folder::new("verify");
        folder.write("config.ru", RACKUP);
        folder.write("unloaded.rb", "preload_app! false\n");
        let port = carat::target::free_port().unwrap();
        let bind = format!("tcp://127.0.0.1:{port}");
        let mut arguments = vec!["exec", "--verify"];
        arguments.extend(options);
        arguments.extend(["--", "puma", "-b", &bind, "-e", "production"]);
        arguments.extend(puma);
        let command = folder.carat(&arguments);
        Self::spawn(folder, command, port)
    }

    /// A workload's own Puma, with two workers.
    pub(crate) fn of_workload(name: &str, options: &[&str]) -> Self {
        let folder = Folder::new("verify");
        let port = carat::target::free_port().unwrap();
        let puma = ["--", "puma", "-C", "puma.rb", "config.ru"];
        let mut command = folder.carat(&[&["exec", "--verify"], options, &puma].concat());
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        command.current_dir(workloads.join(name)).env("PORT", port.to_string()).env("WORKERS", "2");
        Self::spawn(folder, command, port)
    }

    /// Starts a command that is, or becomes, a Puma on this port, without what this test run itself was started with.
    pub(crate) fn spawn(folder: Folder, mut command: Command, port: u16) -> Self {
        let given: Vec<OsString> = command.get_envs().map(|(name, _)| name.to_owned()).collect();
        let own = std::env::vars_os().map(|(name, _)| name);
        let own = own.filter(|name| name.to_string_lossy().starts_with("CARAT_"));
        for name in own.filter(|name| !given.contains(name)) {
            command.env_remove(name);
        }
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Self { server: Group::start(command), folder, port }
    }

    /// Reads the verifier's findings until it has ended: it is the last one to hold the pipe beside the server.
    pub(crate) fn verified(&mut self, lines: usize) -> Vec<String> {
        let pipe: ChildStderr = self.server.0.stderr.take().unwrap();
        let reader = BufReader::new(pipe);
        let found = reader.lines().map_while(Result::ok).filter(|line| is_finding(line));
        let found: Vec<String> = found.take(lines).collect();
        wait_until("the verifier has removed its pages", || self.pages_are_gone());
        found
    }

    fn pages_are_gone(&self) -> bool {
        let environ = self.environ();
        let pages = environ.iter().find_map(|line| line.strip_prefix("CARAT_PAGES="));
        pages.is_none_or(|pages| !fs::exists(pages).unwrap())
    }

    /// The environment with which the program of this process was started.
    fn environ(&self) -> Vec<String> {
        let bytes = fs::read(format!("/proc/{}/environ", self.server.0.id())).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.split('\0').map(str::to_owned).collect()
    }

    /// What the application says.
    pub(crate) fn body(&self) -> Option<String> {
        self.body_of("/")
    }

    /// What the application says to a request of this path.
    pub(crate) fn body_of(&self, path: &str) -> Option<String> {
        body_at(self.port, path)
    }

    pub(crate) fn wait_for_body(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        wait_until(what, || {
            last = self.body().unwrap_or_default();
            !last.is_empty() && fits(&last)
        });
        last
    }

    /// Restarts by SIGUSR2, which replaces the program of this process.
    pub(crate) fn restart(&self) {
        let before = self.environ();
        self.wait_for_body("the server answers", |_| true);
        signal(&self.server.0, Signal::USR2);
        wait_until("the server has been replaced", || self.environ() != before);
        self.wait_for_body("the replaced server answers", |_| true);
    }

    /// Ends it, and returns what it wrote to stderr and was not read yet.
    pub(crate) fn stop(mut self) -> String {
        signal(&self.server.0, Signal::TERM);
        wait_until("the server has ended", || self.server.0.try_wait().unwrap().is_some());
        self.folder.assert_nothing_left();
        let mut talk = String::new();
        if let Some(mut pipe) = self.server.0.stderr.take() {
            pipe.read_to_string(&mut talk).unwrap();
        }
        talk
    }
}

/// Whether a line says what the verifier has found, and not that it still looks.
pub(crate) fn is_finding(line: &str) -> bool {
    line.contains("carat verify: ") && !line.contains("; still looking for ")
}

/// The body of the answer to one request, over a connection of its own; `None` without an answer.
pub(crate) fn body_at(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split("\r\n\r\n").nth(1).filter(|body| !body.is_empty()).map(str::to_owned)
}

/// Names of the variables of the process's own environment that are carat's.
fn of_carat(environ: &[String]) -> Vec<&str> {
    let names = environ.iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let mut found: Vec<&str> = names
        .filter(|name| name.starts_with("CARAT_") || ["RUBYOPT", "LD_PRELOAD"].contains(name))
        .filter(|name| *name != "CARAT_TEST_MARK")
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn a_server_that_restarts_itself_has_nothing_of_the_verifier() {
    require!(Ruby, Puma);
    for (settings, left) in [
        (&["arena_max=2"][..], &[][..]),
        (&["arena_max=2", "--no-scrub"], &[]),
        (&["trim=full-gc"], &["CARAT_RUNTIME", "CARAT_SETTINGS", "RUBYOPT"]),
        (&["trim=full-gc", "--no-scrub"], &["CARAT_RUNTIME", "CARAT_SETTINGS", "RUBYOPT"]),
    ] {
        let mut puma = VerifiedPuma::start(settings, &["config.ru"]);
        let found = puma.verified(1);
        assert!(found[0].contains(&format!("{} applied", settings[0])), "{found:?}");
        puma.restart();
        assert_eq!(of_carat(&puma.environ()), left, "{settings:?}");
        let body = puma.body().unwrap();
        let inherited = if settings.len() > 1 && !left.is_empty() {
            format!("{:?}", left)
        } else {
            "[]".to_owned()
        };
        assert!(body.starts_with(&format!("[{inherited}, {inherited}, ")), "{settings:?}: {body}");
        puma.stop();
    }
}

#[test]
fn workers_of_a_phased_restart_and_their_programs_have_nothing_of_the_verifier() {
    require!(Ruby, Puma);
    let mut puma = VerifiedPuma::start(&["trim=full-gc"], &["-w", "1", "config.ru"]);
    puma.verified(1);
    let first = puma.wait_for_body("the first worker answers", |_| true);
    assert!(first.starts_with("[[], [], "), "{first}");
    signal(&puma.server.0, Signal::USR1);
    let second = puma.wait_for_body("the new worker answers", |body| body != first);
    assert!(second.starts_with("[[], [], "), "{second}");
    puma.stop();
}

#[test]
fn a_server_of_a_failed_test_is_ended_with_its_workers() {
    require!(Ruby, Puma);
    let puma = VerifiedPuma::start(&["arena_max=2"], &["-w", "2", "config.ru"]);
    puma.wait_for_body("a worker answers", |_| true);
    let VerifiedPuma { server, folder, .. } = puma;
    drop(server);
    wait_until("no process is left", || folder.processes().is_empty());
}

/// A script that listens for so many seconds, and forks nothing.
fn listening(folder: &Folder, seconds: u32) -> String {
    let server = format!("require 'socket'\nTCPServer.new('127.0.0.1', 0)\nsleep {seconds}");
    folder.write("server.rb", &server).display().to_string()
}

#[test]
fn a_server_that_forks_nothing_is_told_soon_what_is_applied_and_at_its_end_what_was_not() {
    require!(Ruby);
    let folder = Folder::new("verify");
    let script = listening(&folder, 8);
    let settings = ["gc.malloc_limit=8m", "prepare_fork=full"];
    let ran =
        folder.run(&[&["exec", "--verify"], &settings[..], &["--", "ruby", &script]].concat());
    ran.assert_code(0);
    let said: Vec<&str> =
        ran.talk.lines().filter_map(|line| line.strip_prefix("carat verify: ")).collect();
    for (line, expected) in said.iter().zip([
        "prepare_fork=full not applied yet: no preloaded application has forked; still looking for ",
        "gc.malloc_limit=8388608 applied: ",
        "prepare_fork=full not applied before the server ended: no process was forked, and",
    ]) {
        assert!(line.starts_with(expected), "{said:?}");
    }
    assert_eq!(said.len(), 3, "{said:?}");
}

fn ruby_says(expression: &str) -> String {
    let script = format!("print {expression}");
    let output = Command::new("ruby").args(["-e", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_variable_that_the_serving_ruby_does_not_read_is_not_called_applied() {
    require!(Ruby);
    let folder = Folder::new("verify");
    let version = RubyVersion::find_in(&ruby_says("RUBY_VERSION")).unwrap();
    let (setting, readers) = match version >= V3_3 {
        true => ("gc.init_slots=600000", "it is for Ruby 2.7 to 3.2"),
        false => ("gc.heap_0_init_slots=600000", "it is for Ruby 3.3 to 4.0"),
    };
    let script = listening(&folder, 14);
    // What carat starts is a shell, whose Ruby it does not know.
    let shell = format!("ruby {script}; true");
    let ran = folder.run(&["exec", "--verify", setting, "--", "sh", "-c", &shell]);
    ran.assert_says(&format!("carat verify: {setting} NOT APPLIED: "));
    ran.assert_says(&format!("`{setting}` does nothing on Ruby {version}: {readers}"));
    assert!(!ran.talk.contains(&format!("{setting} applied")), "{}", ran.talk);
}

#[test]
fn another_ruby_than_the_chosen_one_is_not_called_applied() {
    require!(Ruby);
    let folder = Folder::new("verify");
    let chosen = folder.path("bin/ruby");
    fs::create_dir(folder.path("bin")).unwrap();
    fs::copy("/bin/true", &chosen).unwrap();
    let script = listening(&folder, 14);
    let setting = format!("ruby={}", chosen.display());
    // A launcher that names its Ruby by path does not look into PATH.
    let serving = ruby_says("RbConfig.ruby");
    let ran = folder.run(&["exec", "--verify", &setting, "--", &serving, &script]);
    ran.assert_says("bin/ruby NOT APPLIED: ");
    assert!(!ran.talk.contains("bin/ruby applied"), "{}", ran.talk);
}

#[test]
fn options_of_ruby_that_the_user_gives_are_applied_beside_those_of_carat() {
    require!(Ruby);
    let folder = Folder::new("verify");
    let script = listening(&folder, 8);
    let ran = folder.run(&["exec", "--verify", "env.RUBYOPT=-W0", "--", "ruby", &script]);
    ran.assert_code(0).assert_says("carat verify: env.RUBYOPT=-W0 applied: ");
}

#[test]
fn where_workers_load_the_application_late_nothing_is_called_applied_for_it() {
    require!(Ruby);
    let folder = Folder::new("late");
    write_parts(&folder, 30);
    // No server that the runtime knows, so that the application is only assumed to be loaded when it forks.
    let server = "require 'socket'\nserver = TCPServer.new('127.0.0.1', 0)\n\
        fork { sleep 6; 30.times { |number| require_relative \"part#{number}\" }; sleep 12 }\nProcess.wait";
    let script = folder.write("server.rb", server).display().to_string();
    let ran = folder.run(&["exec", "--verify", "prepare_fork=full", "--", "ruby", &script]);
    ran.assert_says(
        "carat verify: prepare_fork=full seems applied: the runtime reports it, and no",
    );
    ran.assert_says("carat verify: prepare_fork=full NOT APPLIED: workers load the application");
    assert!(!ran.talk.contains("prepare_fork=full applied"), "{}", ran.talk);
}

#[test]
fn without_a_setting_there_is_nothing_to_verify() {
    let folder = Folder::new("verify");
    let ran = folder.run(&["exec", "--verify", "--", "true"]);
    assert_eq!(ran.talk, "carat verify: nothing to verify, because no setting was chosen\n");
}

#[test]
fn a_server_that_replaces_itself_while_it_boots_is_verified_all_the_same() {
    require!(Ruby);
    let folder = Folder::new("verify");
    let server = "exec('ruby', __FILE__, 'again') if ARGV.empty?\nrequire 'socket'\n\
                  TCPServer.new('127.0.0.1', 0)\nsleep 8";
    let script = folder.write("server.rb", server).display().to_string();
    let ran = folder.run(&["exec", "--verify", "trim=full-gc", "--", "ruby", &script]);
    ran.assert_code(0).assert_says("carat verify: trim=full-gc applied");
}
