//! `plugin :carat` on real Pumas: the server starts once more through `carat exec`, and keeps its settings.

use crate::exec_verify::VerifiedPuma;
use crate::needs::{TestRuby, roots_folder};
use crate::support::{Folder, signal};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SETTINGS: &str = "[settings]\narena_max = 2\ntrim = \"full-gc\"\n";

/// Answers with the settings of this process, its server's pid and its own.
const RACKUP: &str = r#"
run lambda { |_env|
  arenas = CaratRuntime.setting("scrub").removed["MALLOC_ARENA_MAX"] if defined?(CaratRuntime)
  said = [arenas, defined?(CaratRuntime), Process.ppid, Process.pid].inspect
  [200, { "content-type" => "text/plain" }, [said]]
}
"#;

/// How `bundle exec` leaves a process: a title instead of its command.
const BUNDLED: &str = r#"
$0 = file = ARGV.shift
Process.setproctitle([file, *ARGV].join(" "))
Kernel.load(file)
"#;

/// A folder with the plugin, an application, and a program `carat` that counts how often it is called.
struct PluggedApp {
    folder: Folder,
    port: u16,
}

impl PluggedApp {
    fn new(toml: &str) -> Self {
        let folder = Folder::new("plugin");
        let port = carat::target::free_port().unwrap();
        folder.write("carat.toml", toml);
        folder.write("config.ru", RACKUP);
        folder.write("bundled.rb", BUNDLED);
        let puma =
            format!("plugin :carat\nbind 'tcp://127.0.0.1:{port}'\nenvironment 'production'\n");
        folder.write("puma.rb", &puma);
        fs::create_dir_all(folder.path("lib/puma/plugin")).unwrap();
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packaging/gem/lib/puma/plugin/carat.rb");
        fs::copy(plugin, folder.path("lib/puma/plugin/carat.rb")).unwrap();
        write_counting_carat(&folder);
        Self { folder, port }
    }

    /// Starts Puma by `command`, which ends with the name of a Ruby.
    fn start(self, mut command: Command, arguments: &[&str]) -> VerifiedPuma {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.folder.path("bin").display());
        command
            .args(arguments)
            .env("CARAT_ROOTS", roots_folder())
            .current_dir(self.folder.path(""))
            .env("PATH", path)
            .env("RUBYLIB", self.folder.path("lib"))
            .env("XDG_CACHE_HOME", self.folder.path("cache"))
            .env("CARAT_TEST_MARK", self.folder.mark())
            .env_remove("RUBYOPT");
        VerifiedPuma::spawn(self.folder, command, self.port)
    }

    fn start_here(self, arguments: &[&str]) -> VerifiedPuma {
        self.start(TestRuby::OnPath.command(None), arguments)
    }
}

const PUMA: [&str; 4] = ["-S", "puma", "-C", "puma.rb"];

/// A root has neither this checkout nor this system's C library, so the program is there with its loader and libraries.
fn write_counting_carat(folder: &Folder) {
    let files = folder.path("files");
    for place in [&files, &folder.path("bin"), &folder.path("cache")] {
        fs::create_dir(place).unwrap();
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter_map(|line| line.find('/').map(|place| &line[place..]));
    let libraries: BTreeSet<&Path> =
        mapped.filter(|file| file.contains(".so")).map(Path::new).collect();
    for file in &libraries {
        fs::copy(file, files.join(file.file_name().unwrap())).unwrap();
    }
    let loader = libraries.iter().find(|file| file.to_string_lossy().contains("/ld-linux"));
    let loader = loader.unwrap().file_name().unwrap().to_string_lossy();
    let carat = Path::new(env!("CARGO_BIN_EXE_carat"));
    fs::hard_link(carat, files.join("carat"))
        .or_else(|_| fs::copy(carat, files.join("carat")).map(drop))
        .unwrap();
    let (files, calls) = (files.display(), folder.path("calls"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\n\
         exec {files}/{loader} --library-path {files} {files}/carat \"$@\"\n",
        calls.display()
    );
    let program = folder.write("bin/carat", &script);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The calls of `carat`: one that tries the settings, and one that becomes the server.
fn calls(puma: &VerifiedPuma) -> usize {
    let calls = fs::read_to_string(puma.folder.path("calls")).unwrap_or_default();
    calls.lines().filter(|line| line.starts_with("exec -- ")).count()
}

/// What the application says if both settings are applied.
fn applied(puma: &VerifiedPuma) -> String {
    format!("[\"2\", \"constant\", {}, ", puma.server.0.id())
}

fn settings_survive_restarts(version: TestRuby) {
    let app = PluggedApp::new(SETTINGS);
    let puma = app.start(version.command(None), &[&PUMA[..], &["-w", "1"]].concat());
    let first = puma.wait_for_body("the first worker answers", |_| true);
    assert!(first.starts_with(&applied(&puma)), "{first}");
    assert_eq!(calls(&puma), 2);
    signal(&puma.server.0, Signal::USR1);
    let second = puma.wait_for_body("the worker of a phased restart", |body| body != first);
    assert!(second.starts_with(&applied(&puma)), "{second}");
    puma.restart();
    let third = puma.wait_for_body("the restarted server", |body| body != second);
    assert!(third.starts_with(&applied(&puma)), "{third}");
    assert_eq!(calls(&puma), 2, "a restart does not start carat again");
    assert!(!puma.stop().contains("carat"));
}

#[test]
fn settings_survive_restarts_of_the_puma_in_path() {
    require!(Ruby, Puma);
    settings_survive_restarts(TestRuby::OnPath);
}

#[test]
fn settings_survive_restarts_of_puma_4_3() {
    require!(Roots("bullseye"));
    settings_survive_restarts(TestRuby::InRoot("bullseye"));
}

#[test]
fn settings_survive_restarts_of_puma_5_6() {
    require!(Roots("bookworm"));
    settings_survive_restarts(TestRuby::InRoot("bookworm"));
}

#[test]
fn settings_survive_restarts_of_puma_6_6() {
    require!(Roots("trixie"));
    settings_survive_restarts(TestRuby::InRoot("trixie"));
}

#[test]
fn settings_survive_restarts_of_puma_8() {
    require!(Roots("sid"));
    settings_survive_restarts(TestRuby::InRoot("sid"));
}

#[test]
fn switched_off_the_server_is_not_started_again() {
    require!(Ruby, Puma);
    let mut command = TestRuby::OnPath.command(None);
    command.env("CARAT_OFF", "1");
    let puma = PluggedApp::new(SETTINGS).start(command, &PUMA);
    let body = puma.wait_for_body("the server answers", |_| true);
    assert!(body.starts_with("[nil, nil, "), "{body}");
    assert_eq!(calls(&puma), 0);
    assert_eq!(puma.stop(), "");
}

#[test]
fn nothing_chosen_starts_nothing() {
    require!(Ruby, Puma);
    let app = PluggedApp::new("");
    fs::remove_file(app.folder.path("carat.toml")).unwrap();
    let puma = app.start_here(&PUMA);
    puma.wait_for_body("the server answers", |_| true);
    assert_eq!(calls(&puma), 0);
    assert_eq!(puma.stop(), "");
}

#[test]
fn what_cannot_be_applied_is_one_line_and_the_server_runs() {
    require!(Ruby, Puma);
    let missing = "there is no program `carat` in PATH";
    for (toml, removed, said) in [
        ("[settings]\narena_mx = 2\n", None, "did you mean `arena_max`?"),
        ("[settings]\nallocator = \"/nowhere.so\"\n", None, "cannot read the library /nowhere.so"),
        (SETTINGS, Some("bin/carat"), missing),
    ] {
        let app = PluggedApp::new(toml);
        if let Some(file) = removed {
            fs::remove_file(app.folder.path(file)).unwrap();
        }
        let puma = app.start_here(&PUMA);
        let body = puma.wait_for_body("the server answers", |_| true);
        assert!(body.starts_with("[nil, nil, "), "{body}");
        let talk = puma.stop();
        assert!(talk.starts_with("carat: the server runs without settings: "), "{talk}");
        assert!(talk.contains(said) && talk.lines().count() == 1, "{talk}");
    }
}

#[test]
fn a_command_that_bundler_has_replaced_by_a_title_is_found() {
    require!(Ruby, Puma);
    let puma_path = program("puma");
    let arguments = ["bundled.rb", &puma_path, "-C", "puma.rb", "-w", "1"];
    let puma = PluggedApp::new(SETTINGS).start_here(&arguments);
    let body = puma.wait_for_body("the server answers", |_| true);
    assert!(body.starts_with(&applied(&puma)), "{body}");
    assert_eq!(calls(&puma), 2);
    puma.stop();
}

#[test]
fn an_unknown_title_costs_the_settings_and_not_the_server() {
    require!(Ruby, Puma);
    let puma_path = program("puma");
    let script = "$0 = 'my server'; load ARGV.shift";
    let puma = PluggedApp::new(SETTINGS).start_here(&["-e", script, &puma_path, "-C", "puma.rb"]);
    let body = puma.wait_for_body("the server answers", |_| true);
    assert!(body.starts_with("[nil, nil, "), "{body}");
    assert!(puma.stop().contains("the title `my server` has replaced it"));
}

#[test]
fn the_sockets_of_systemd_reach_the_server() {
    require!(Ruby, Puma);
    let app = PluggedApp::new(SETTINGS);
    let script = format!(
        "require 'socket'; s = TCPServer.new('127.0.0.1', {}); \
         exec({{ 'LISTEN_FDS' => '1', 'LISTEN_PID' => $$.to_s }}, \
         RbConfig.ruby, '-S', 'puma', '-C', 'puma.rb', '-w', '1', 3 => s.fileno)",
        app.port
    );
    let puma = app.start_here(&["-e", &script]);
    let body = puma.wait_for_body("the server answers", |_| true);
    assert!(body.starts_with(&applied(&puma)), "{body}");
    puma.stop();
}

/// The file of a program in `PATH`.
fn program(name: &str) -> String {
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file()).unwrap().display().to_string()
}
