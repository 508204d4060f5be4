//! `carat install`, and the environment that `exec --print-env` prints for a server that carat does not start.

use crate::support::{Folder, Ran};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(crate) const FORMATS: [&str; 6] =
    ["shell", "dockerfile", "systemd", "procfile", "kamal", "kubernetes"];

/// A prefix that every user can read and that no reboot empties, which is not true of every checkout. Needs root.
pub(crate) fn prefix() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/var/lib").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

pub(crate) fn install(folder: &Folder, prefix: &Path, more: &[&str]) -> Ran {
    let prefix = prefix.display().to_string();
    folder.run(&[&["install", "--prefix", &prefix], more].concat())
}

/// The files of the only installed version.
fn installed(prefix: &Path) -> Vec<PathBuf> {
    let version = fs::read_dir(prefix.join("lib/carat")).unwrap().next().unwrap().unwrap().path();
    fs::read_dir(version).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn print_env(folder: &Folder, prefix: &Path, format: &str, settings: &[&str]) -> Ran {
    let prefix = prefix.display().to_string();
    let mut arguments = vec!["exec", "--print-env", format, "--prefix", &prefix];
    arguments.extend(settings);
    arguments.extend(["--", "puma", "-w", "4"]);
    folder.run(&arguments)
}

#[test]
fn installed_libraries_can_be_read_by_everyone_and_are_installed_once() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    let first = install(&folder, prefix.path(), &[]);
    first.assert_code(0).assert_says("installed; ");
    let files = installed(prefix.path());
    assert_eq!(files.len(), 3, "{files:?}");
    for file in &files {
        assert_eq!(mode(file), 0o644, "{}", file.display());
        for above in file.ancestors().skip(1).take(3) {
            assert_eq!(mode(above), 0o755, "{}", above.display());
        }
    }
    let inode = fs::metadata(&files[0]).unwrap().ino();
    let again = install(&folder, prefix.path(), &[]);
    again.assert_code(0).assert_says("installed already");
    assert_eq!((again.out, fs::metadata(&files[0]).unwrap().ino()), (first.out, inode));
}

#[test]
fn a_damaged_library_is_not_named_and_is_replaced() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    let file = &installed(prefix.path())[0];
    fs::write(file, "other").unwrap();
    let lacking = print_env(&folder, prefix.path(), "systemd", &["trim=full-gc"]);
    lacking.assert_code(0).assert_says("ExecStart=");
    install(&folder, prefix.path(), &[]).assert_code(0).assert_says("installed; ");
    assert_eq!(installed(prefix.path()).len(), 3);
    print_env(&folder, prefix.path(), "systemd", &["trim=full-gc"]).assert_says("CARAT_RUNTIME=");
}

#[test]
fn libraries_are_removed_and_nothing_else() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    install(&folder, prefix.path(), &["--remove"])
        .assert_code(0)
        .assert_says("nothing is installed");
    install(&folder, prefix.path(), &[]).assert_code(0);
    let other = prefix.path().join("lib/carat/notes");
    fs::write(&other, "").unwrap();
    install(&folder, prefix.path(), &["--remove"]).assert_code(0).assert_says("removed ");
    let left: Vec<_> = fs::read_dir(prefix.path().join("lib/carat")).unwrap().collect();
    assert!(left.len() == 1 && other.exists(), "{left:?}");
}

#[test]
fn what_was_installed_and_removed_is_printed_as_json() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    let json = |more: &[&str]| -> Value {
        let ran = install(&folder, prefix.path(), &[more, &["--json"]].concat());
        assert_eq!((ran.assert_code(0).talk.as_str(), ran.out.ends_with("}\n")), ("", true));
        serde_json::from_str(&ran.out).unwrap()
    };
    for is_new in [true, false] {
        let answer = json(&[]);
        assert_eq!(answer["schema"], "carat.install/1");
        assert_eq!(answer["new"], is_new);
        let there = installed(prefix.path());
        for key in ["shim", "probe", "runtime"] {
            let file = Path::new(answer[key].as_str().unwrap());
            assert!(there.iter().any(|one| one == file), "{answer:#}");
            assert!(file.starts_with(answer["directory"].as_str().unwrap()), "{answer:#}");
        }
    }
    let directory = json(&[])["directory"].clone();
    let removed = [json(&["--remove"]), json(&["--remove"])].map(|one| one["removed"].clone());
    assert_eq!(removed, [Value::from([directory]), Value::from([""; 0])]);
}

#[test]
fn a_prefix_that_servers_cannot_use_is_refused_with_a_remedy() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    let private = prefix.path().join("private");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let file = prefix.path().join("file");
    fs::write(&file, "").unwrap();
    let changeable = prefix.path().join("changeable");
    fs::create_dir_all(changeable.join("lib/carat")).unwrap();
    fs::set_permissions(changeable.join("lib/carat"), fs::Permissions::from_mode(0o777)).unwrap();
    for (place, expected) in [
        (Path::new("usr/local"), "not an absolute path"),
        (Path::new("/tmp"), "a reboot removes /tmp; choose another --prefix"),
        (&private, "other users cannot read"),
        (&file, "run this as root"),
        (&changeable, "other users can change"),
    ] {
        install(&folder, place, &[]).assert_code(1).assert_says(expected);
    }
}

#[test]
fn no_format_names_a_file_of_this_users_cache() {
    require!(Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    let cache = format!("{}/cache", env!("CARGO_TARGET_TMPDIR"));
    for installed in [false, true] {
        if installed {
            install(&folder, prefix.path(), &[]).assert_code(0);
        }
        for format in FORMATS {
            let ran =
                print_env(&folder, prefix.path(), format, &["prepare_fork=full", "arena_max=2"]);
            let all = format!("{}{}", ran.out, ran.talk);
            assert!(!all.contains(&cache) && !all.contains("/.cache/"), "{format}: {all}");
            if installed {
                let path = prefix.path().join("lib/carat").display().to_string();
                ran.assert_code(0).assert_says(&path).assert_says("MALLOC_ARENA_MAX");
            } else if format == "shell" {
                ran.assert_code(125)
                    .assert_says("carat exec arena_max=2 prepare_fork=full -- puma -w 4");
                assert_eq!(ran.out, "");
            } else {
                ran.assert_code(0).assert_says("exec").assert_says("prepare_fork=full");
                ran.assert_says("`carat install --prefix ");
                assert!(!all.contains("CARAT_RUNTIME"), "{format}: {all}");
            }
        }
    }
}

#[test]
fn a_printed_environment_applies_the_settings_as_another_user() {
    require!(Ruby, Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    let ran = print_env(&folder, prefix.path(), "shell", &["trim=full-gc"]);
    let script = format!(
        "{}cd / && exec ruby -e 'p CaratRuntime.report[:applied], ENV[\"RUBYOPT\"]'",
        ran.out
    );
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", &script])
        .env_remove("RUBYOPT")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "3\nnil\n", "{output:?}");
}

#[test]
fn variables_alone_need_no_installation_and_a_library_that_does_not_last_is_refused() {
    require!(Ruby, Jemalloc, Root);
    let (folder, prefix) = (Folder::new("install"), prefix());
    for format in FORMATS {
        let ran = print_env(&folder, prefix.path(), format, &["allocator=jemalloc"]);
        ran.assert_code(0).assert_says("LD_PRELOAD").assert_says("libjemalloc");
        assert!(!ran.out.contains("RUBYOPT"), "{format}: {}", ran.out);
    }
    let library = carat_settings::find_allocator(Path::new("/"), "jemalloc").unwrap();
    let passing = folder.path("libjemalloc.so.2");
    fs::copy(library, &passing).unwrap();
    let setting = format!("allocator={}", passing.display());
    let ran = print_env(&folder, prefix.path(), "systemd", &[&setting]);
    ran.assert_code(125).assert_says("a reboot removes").assert_says("move the file");
}

/// A server that becomes another user, whose Ruby begins only then.
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn a_server_that_becomes_another_user_can_read_the_libraries_wherever_roots_cache_is() {
    require!(Ruby, Root);
    let folder = Folder::new("exec");
    // Everybody may enter the test's own folder, where the server runs, and only root its cache.
    fs::set_permissions(folder.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path("closed")).unwrap();
    fs::set_permissions(folder.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let server = "p Process.uid, defined?(CaratRuntime)";
    let ran = folder
        .carat(&[&["exec", "trim=full-gc", "--"], &AS_NOBODY[..], &["ruby", "-e", server]].concat())
        .env("XDG_CACHE_HOME", folder.path("closed/cache"))
        .env("HOME", folder.path("closed"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "65534\n\"constant\"\n", "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
    assert_eq!(fs::read_dir(folder.path("closed")).unwrap().count(), 0);
}

#[test]
fn a_server_that_restarts_where_it_cannot_read_the_libraries_any_more_starts_without_them() {
    require!(Ruby);
    let folder = Folder::new("exec");
    fs::set_permissions(folder.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let script = folder.write(
        "server.rb",
        r#"
        puts defined?(CaratRuntime).inspect
        $stdout.flush
        exit if ARGV.empty?
        shim = $LOADED_FEATURES.grep(/carat_shim/).first || Dir[ENV["XDG_CACHE_HOME"] + "/carat/*/carat_shim.rb"].first
        File.delete(shim)
        exec("ruby", __FILE__)
        "#,
    );
    let script = script.display().to_string();
    let ran = folder
        .carat(&["exec", "trim=full-gc", "--", "ruby", &script, "again"])
        .env("XDG_CACHE_HOME", folder.path("cache"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "\"constant\"\nnil\n", "{ran:?}");
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(talk.contains("carat: a Ruby is started without settings"), "{talk}");
    assert_eq!(talk.lines().count(), 1, "{talk}");
}
