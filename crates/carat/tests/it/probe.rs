//! A real Ruby loads the libraries that the binary carries.

use crate::needs::TestRuby;
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

/// Makes a Ruby believe that it is built for musl.
const MUSL: &str =
    "Object.send(:remove_const, :RUBY_PLATFORM); RUBY_PLATFORM = 'x86_64-linux-musl'";

#[test]
fn a_ruby_built_for_musl_loads_the_libraries_for_musl(version: TestRuby) {
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    // In truth those for glibc: what counts is the choice, and that Ruby finds the function of a name with two dots.
    let folder = home.path().join("both");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(&libraries.probe, folder.join("carat_probe.musl.so")).unwrap();
    let musl = home.path().join("musl.rb");
    std::fs::write(&musl, MUSL).unwrap();
    let mut command = version.command(None);
    let options = format!("-r{} -r{}", musl.display(), libraries.shim.display());
    command.args(["-e", LOADED]).env("RUBYOPT", options).env_remove(env::OFF);
    command.env(env::PROBE, folder.join("carat_probe.so")).env_remove(env::RUNTIME);
    let (out, talk) = run(&mut command);
    assert_eq!((out.as_str(), talk.as_str()), ("carat_probe.musl.so carat_shim.rb", ""));
}

#[test]
fn a_library_that_cannot_be_loaded_is_reported_with_what_to_do() {
    require!(Ruby, Mounts);
    let home = tempfile::tempdir().unwrap();
    let libraries = unpack(home.path());
    let other = home.path().join("carat_other.so");
    let mut bytes = std::fs::read(&libraries.probe).unwrap();
    // Another word size in the header.
    bytes[4] = 1;
    std::fs::write(&other, bytes).unwrap();
    let noexec = "mount -t tmpfs -o noexec none /mnt && cp \"$CARAT_PROBE\" /mnt/carat_probe.so && \
                  CARAT_PROBE=/mnt/carat_probe.so exec ruby -e 'print :served'";
    let plain = "exec ruby -e 'print :served'";
    for (script, library, expected) in [
        (noexec, libraries.probe.clone(), "its folder is mounted noexec: set XDG_CACHE_HOME"),
        (plain, other, "install the carat that is"),
        (plain, home.path().join("carat_none.so"), "run `carat install`"),
    ] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).env_remove(env::OFF);
        command.env("RUBYOPT", format!("-r{}", libraries.shim.display()));
        command.env(env::PROBE, &library).env_remove(env::RUNTIME);
        let (out, talk) = run(&mut command);
        assert_eq!(out, "served");
        assert!(talk.contains(expected) && talk.lines().count() == 1, "{talk}");
    }
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
