//! The `carat` command of the gem, as RubyGems installs it.

use crate::support::Folder;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the gem's command in a copy of the gem.
fn run(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new("ruby");
    command.arg(folder.path("exe/carat")).args(arguments).env_remove("RUBYOPT").output().unwrap()
}

/// The gem with this file as its program.
fn gem(program: Option<&[u8]>) -> Folder {
    let folder = Folder::new("gem");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/gem/exe/carat");
    fs::create_dir(folder.path("exe")).unwrap();
    fs::create_dir(folder.path("libexec")).unwrap();
    fs::copy(script, folder.path("exe/carat")).unwrap();
    if let Some(program) = program {
        fs::write(folder.path("libexec/carat"), program).unwrap();
    }
    folder
}

#[test]
fn the_gem_becomes_its_program() {
    require!(Ruby);
    let folder = gem(None);
    fs::copy(env!("CARGO_BIN_EXE_carat"), folder.path("libexec/carat")).unwrap();
    let version = run(&folder, &["--version"]);
    let expected = format!("carat {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected, "{version:?}");
    let server = run(&folder, &["exec", "arena_max=2", "--", "sh", "-c", "echo $MALLOC_ARENA_MAX"]);
    assert_eq!(String::from_utf8_lossy(&server.stdout), "2\n", "{server:?}");
}

#[test]
fn where_the_program_does_not_run_one_line_says_why_and_the_server_runs() {
    require!(Ruby);
    let mut other = fs::read(env!("CARGO_BIN_EXE_carat")).unwrap();
    // A program for another processor (`e_machine`, elf(5)): IBM S/390.
    other[18] = 22;
    // One that is not executable stands for a folder that is mounted noexec.
    let own = fs::read(Path::new(env!("CARGO_BIN_EXE_carat"))).unwrap();
    let platforms = "there are gems for x86_64-linux and aarch64-linux";
    for (program, expected) in [
        (None, platforms),
        (Some(&other[..]), platforms),
        (Some(&own[..]), "does not run (Permission denied"),
    ] {
        let folder = gem(program);
        let version = run(&folder, &["--version"]);
        let talk = String::from_utf8_lossy(&version.stderr);
        assert_eq!(version.status.code(), Some(1), "{version:?}");
        assert!(talk.contains(expected) && talk.lines().count() == 1, "{talk}");
        let server =
            run(&folder, &["exec", "arena_max=2", "--", "sh", "-c", "echo $0 $1", "a b", "c"]);
        let talk = String::from_utf8_lossy(&server.stderr);
        assert_eq!(String::from_utf8_lossy(&server.stdout), "a b c\n", "{talk}");
        assert!(
            talk.contains("the server runs without carat") && talk.contains(expected),
            "{talk}"
        );
        assert_eq!(talk.lines().count(), 1, "{talk}");
    }
}
