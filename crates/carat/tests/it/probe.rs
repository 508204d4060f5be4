//! A real Ruby loads the libraries that the binary carries.

use carat::target::{Libraries, library};
use carat_wire::env;
use std::path::Path;
use std::process::{Command, Output};

/// A `ruby` whose `RUBYOPT` names the shim.
fn ruby(libraries: &Libraries, script: &str) -> Command {
    let mut command = Command::new("ruby");
    command.args(["-e", script]).env("RUBYOPT", format!("-r{}", libraries.shim.display()));
    command.env_remove(env::OFF);
    command
}

fn unpack(home: &Path) -> Libraries {
    library::unpack(&home.join("carat")).unwrap()
}

fn run(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

const LOADED: &str =
    "print $LOADED_FEATURES.grep(/carat_/).map { |f| File.basename(f) }.sort.join(' ')";

#[test]
fn a_real_ruby_loads_both_libraries_without_a_word() {
    require!(Ruby);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    let mut command = ruby(&libraries, LOADED);
    command.env(env::PROBE, &libraries.probe).env(env::RUNTIME, &libraries.runtime);
    let (out, talk) = run(&mut command);
    assert_eq!(out, "carat_probe.so carat_runtime.so carat_shim.rb");
    assert_eq!(talk, "");
}

#[test]
fn both_libraries_name_the_binary_interface_that_a_preview_of_ruby_requires() {
    require!(Ruby);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    for (version, expected) in [("4.1.0+7", "7"), ("3.1.0", "0")] {
        let script = format!(
            "require 'fiddle'\nRbConfig::CONFIG['ruby_version'] = '{version}'\n\
             numbers = %w[CARAT_PROBE CARAT_RUNTIME].map do |name|\n\
               function = Fiddle.dlopen(ENV.fetch(name))['ruby_abi_version']\n\
               Fiddle::Function.new(function, [], Fiddle::TYPE_LONG_LONG, need_gvl: true).call\n\
             end\nprint numbers.uniq.join(' ')"
        );
        let mut command = ruby(&libraries, &script);
        command.env(env::PROBE, &libraries.probe).env(env::RUNTIME, &libraries.runtime);
        assert_eq!(run(&mut command), (expected.to_owned(), String::new()), "{version}");
    }
}

#[test]
fn the_kill_switch_loads_nothing() {
    require!(Ruby);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    let mut command = ruby(&libraries, LOADED);
    command.env(env::PROBE, &libraries.probe).env(env::OFF, "1");
    assert_eq!(run(&mut command), ("carat_shim.rb".into(), String::new()));
}

#[test]
fn a_missing_library_costs_one_line_and_a_broken_one_too() {
    require!(Ruby);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    let broken = home.path().join("carat_broken.so");
    std::fs::write(&broken, "not a library").unwrap();
    let mut command = ruby(&libraries, "print :served");
    command.env(env::PROBE, home.path().join("carat_none.so")).env(env::RUNTIME, &broken);
    let (out, talk) = run(&mut command);
    assert_eq!(out, "served");
    assert_eq!(talk.lines().count(), 2, "{talk}");
    assert!(talk.lines().all(|line| line.starts_with("carat: not loaded: ")), "{talk}");
}

#[test]
fn a_closed_stderr_does_not_stop_the_server() {
    require!(Ruby);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    let mut command = Command::new("sh");
    command.args(["-c", "exec ruby -e 'print :served' 2>&-"]);
    command.env("RUBYOPT", format!("-r{}", libraries.shim.display()));
    command.env(env::PROBE, home.path().join("carat_none.so")).env_remove(env::OFF);
    assert_eq!(run(&mut command).0, "served");
}
