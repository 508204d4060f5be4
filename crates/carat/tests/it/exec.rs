//! `carat exec` on real programs: their environment, their exit codes, and what is rejected.

use crate::support::Folder;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_server_keeps_pid_arguments_and_exit_code() {
    let folder = Folder::new("exec");
    let script = "echo pid=$$ arena=$MALLOC_ARENA_MAX args=$*; exit 7";
    let child = folder
        .carat(&["exec", "arena_max=2", "--", "sh", "-c", script, "sh", "a b"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let ran = crate::support::finish(child);
    ran.assert_code(7).assert_says(&format!("pid={pid} arena=2 args=a b"));
}

#[test]
fn the_exit_code_tells_why_the_command_was_not_started() {
    let folder = Folder::new("exec");
    let plain = folder.write("plain", "no program").display().to_string();
    for (arguments, code, said) in [
        (&["exec", "arena_mx=2", "--", "true"][..], 125, "did you mean `arena_max`?"),
        (
            &["exec", "allocator=/nowhere.so", "--", "true"],
            125,
            "cannot read the library /nowhere.so",
        ),
        (&["exec", "seal=on", "--", "true"], 125, "prepare_fork"),
        (&["exec", "arena_max=2"], 125, "no command is given"),
        (&["exec", "--", &plain], 126, "cannot run"),
        (&["exec", "--", "no-such-program"], 127, "no-such-program"),
    ] {
        folder.run(arguments).assert_code(code).assert_says(said);
    }
}

#[test]
fn the_command_line_overrides_the_environment_which_overrides_the_file() {
    let folder = Folder::new("exec");
    folder.write("carat.toml", "[settings]\narena_max = 1\n\"gc.growth_factor\" = 1.1\n");
    let show = ["exec", "--", "sh", "-c", "echo $MALLOC_ARENA_MAX $RUBY_GC_HEAP_GROWTH_FACTOR"];
    folder.run(&show).assert_code(0).assert_says("1 1.1");
    let from_environment =
        folder.carat(&show).env("CARAT_SET", "arena_max=3; gc.growth_factor=1.2").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&from_environment.stdout), "3 1.2\n");
    let mut over = show.to_vec();
    over.insert(1, "arena_max=4");
    folder.run(&over).assert_says("4 1.1");
    folder.write("carat.toml", "[settings]\narena_mx = 1\n");
    folder.run(&show).assert_code(125).assert_says("carat.toml");
}

#[test]
fn the_systems_malloc_serves_where_the_environment_preloads_another() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("exec");
    let maps = "puts File.read('/proc/self/maps').include?('jemalloc')";
    let run = |arguments: &[&str]| {
        let mut command = folder.carat(&[arguments, &["--", "ruby", "-e", maps]].concat());
        let ran = command.env("LD_PRELOAD", "libjemalloc.so.2").output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    };
    assert!(run(&["exec", "compact=off"]).contains("true\n"));
    let ran = run(&["exec", "allocator=system"]);
    assert!(ran.contains("false\n") && ran.contains("names libjemalloc.so.2"), "{ran}");
}

#[test]
fn a_profile_that_is_given_replaces_that_of_the_file_and_what_else_the_file_adds_is_said() {
    let folder = Folder::new("exec");
    folder.write("carat.toml", "profile = 'low-memory'\n[settings]\n\"gc.malloc_limit\" = '32m'\n");
    let run = |option: &str| {
        folder.run(&[
            "exec",
            option,
            "--",
            "sh",
            "-c",
            "echo $CARAT_SETTINGS $RUBY_GC_MALLOC_LIMIT",
        ])
    };
    let replaced = run("profile=balanced");
    replaced
        .assert_says("profile=low-memory of carat.toml does not apply, because profile=balanced");
    replaced
        .assert_says("also from carat.toml: gc.malloc_limit=33554432\n")
        .assert_says(" 33554432");
    assert!(!replaced.out.contains("trim"), "{replaced:?}");
    run("arena_max=3").assert_says("prepare_fork=full, trim=full-gc").assert_says("33554432");
}

#[test]
fn carat_toml_accepts_a_profile_and_refuses_unknown_keys() {
    let folder = Folder::new("exec");
    let show = ["exec", "--", "sh", "-c", "echo $MALLOC_ARENA_MAX"];
    for (text, code, said) in [
        ("profile = 'balanced'\n", 0, "2\n"),
        ("profile = 'balanced'\n[settings]\narena_max = 1\n", 0, "1\n"),
        ("profile = 'balance'\n", 125, "no profile is named `balance`"),
        ("arena_max = 1\n", 125, "carat.toml: unknown key `arena_max`; write `profile` and"),
        ("profiles = 'balanced'\n", 125, "unknown key `profiles` (did you mean `profile`?)"),
        ("settings = 1\n", 125, "`settings` must be a table"),
        // An experiment file, which is for `carat compare`.
        ("name = 'x'\n[[variant]]\nname = 'default'\n", 0, "\n"),
    ] {
        folder.write("carat.toml", text);
        folder.run(&show).assert_code(code).assert_says(said);
    }
}

#[test]
fn only_the_server_and_its_own_restart_get_the_preload() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("exec");
    let script = folder.write(
        "server.rb",
        r#"
        maps = File.read("/proc/self/maps").include?("jemalloc")
        leaked = ENV.keys.grep(/LD_PRELOAD|CARAT_RUNTIME|CARAT_SETTINGS/)
        seen_by_others = `env`.lines.grep(/jemalloc|carat_shim/)
        puts [maps, leaked, seen_by_others, ENV["RUBYOPT"]].inspect
        $stdout.flush
        exec("ruby", __FILE__, "again") if ARGV.empty?
        "#,
    );
    let ran = folder
        .carat(&["exec", "allocator=jemalloc", "--", "ruby", &script.display().to_string()])
        .env("RUBYOPT", "-W0")
        .output()
        .unwrap();
    let line = "[true, [], [], \"-W0\"]\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), line.repeat(2), "{ran:?}");
}

/// So does `bundle exec` with a program that it does not load itself.
#[test]
fn a_server_that_adds_an_option_for_ruby_and_replaces_itself_keeps_both_option_and_settings() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let script = folder.write(
        "server.rb",
        r#"
        seen_by_others = `ruby -e 'print ENV["RUBYOPT"]'`
        puts [defined?(CaratRuntime), seen_by_others, ENV.keys.grep(/CARAT_(RUN|SET|INH)/)].inspect
        $stdout.flush
        ENV["RUBYOPT"] = [*ENV["RUBYOPT"], ARGV.shift].join(" ")
        begin
          exec("/nowhere")
        rescue SystemCallError
          exec("ruby", __FILE__, *ARGV) unless ARGV.empty?
        end
        puts ENV["RUBYOPT"], ENV.keys.grep(/CARAT_(RUN|SET|INH)/).inspect
        "#,
    );
    for (inherited, before) in [(None, ""), (Some("-W1"), "-W1 ")] {
        let script = script.display().to_string();
        let mut server = folder.carat(&["exec", "trim=full-gc", "--", "ruby", &script]);
        server.args(["-W0", "-rset", "-rjson"]);
        server.envs(inherited.map(|options| ("RUBYOPT", options)));
        let ran = server.output().unwrap();
        let lines = [
            format!("[\"constant\", \"{}\", []]", before.trim()),
            format!("[\"constant\", \"{before}-W0\", []]"),
            format!("[\"constant\", \"{before}-W0 -rset\", []]"),
            format!("{before}-W0 -rset -rjson"),
            "[]".to_owned(),
        ];
        let printed = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(printed.lines().collect::<Vec<_>>(), lines, "{ran:?}");
        assert!(ran.stderr.is_empty(), "{ran:?}");
    }
}

#[test]
fn settings_are_checked_against_the_ruby_of_the_servers_root() {
    require!(Root, Roots("trixie"), Roots("bullseye"));
    let folder = Folder::new("exec");
    let roots = crate::needs::roots_folder();
    for (root, setting, refused) in [
        ("trixie", "gc.init_slots=20000", Some("does nothing on Ruby 3.3")),
        ("trixie", "gc.heap_0_init_slots=20000", None),
        ("bullseye", "gc.heap_0_init_slots=20000", Some("does nothing on Ruby 2.7")),
        ("bullseye", "gc.init_slots=20000", None),
    ] {
        let root = format!("root={}", roots.join(root).display());
        let ran = folder.run(&["exec", &root, setting, "--", "ruby", "-e", "puts 7"]);
        match refused {
            Some(said) => ran.assert_code(125).assert_says(said),
            None => ran.assert_code(0).assert_says("7\n"),
        };
    }
}

#[test]
fn in_another_root_the_server_starts_without_the_settings_whose_libraries_are_outside() {
    require!(Root, Roots("trixie"));
    let folder = Folder::new("exec");
    let root = format!("root={}", crate::needs::roots_folder().join("trixie").display());
    let settings = ["exec", &root, "arena_max=2", "trim=full-gc", "--verify"];
    let command = ["--", "ruby", "-e", "puts ENV['MALLOC_ARENA_MAX'], ENV['RUBYOPT'].inspect"];
    let ran = folder.run(&[&settings[..], &command[..]].concat());
    ran.assert_code(0).assert_says("2\nnil\n");
    ran.assert_says("without trim=full-gc, --verify: carat's libraries are outside the root");
}

#[test]
fn behind_a_program_that_changes_the_root_the_server_starts_without_the_settings_that_need_libraries()
 {
    require!(Root, Roots("trixie"));
    let folder = Folder::new("exec");
    let root = crate::needs::roots_folder().join("trixie").display().to_string();
    let settings = ["exec", "arena_max=2", "trim=full-gc", "--verify", "--"];
    let command =
        ["chroot", &root, "ruby", "-e", "puts ENV['MALLOC_ARENA_MAX'], ENV['RUBYOPT'].inspect"];
    let ran = folder.run(&[&settings[..], &command[..]].concat());
    ran.assert_code(0).assert_says("2\nnil\n");
    ran.assert_says("without trim=full-gc, --verify: `chroot` gives the server other files");
}

#[test]
fn carat_off_runs_the_command_without_any_change() {
    let folder = Folder::new("exec");
    let ran = folder
        .carat(&[
            "exec",
            "arena_max=2",
            "compact=boot",
            "--",
            "sh",
            "-c",
            "echo [$MALLOC_ARENA_MAX$RUBYOPT]",
        ])
        .env("CARAT_OFF", "1")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "[]\n");
}

#[test]
fn a_setuid_ruby_is_rejected_because_the_loader_would_ignore_the_preload() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("exec");
    let ruby = folder.path("ruby");
    fs::copy(fs::canonicalize("/usr/bin/ruby").unwrap(), &ruby).unwrap();
    fs::set_permissions(&ruby, fs::Permissions::from_mode(0o4755)).unwrap();
    let ruby = ruby.display().to_string();
    let ran = folder.run(&["exec", "allocator=jemalloc", "--", &ruby, "-e", "1"]);
    ran.assert_code(125).assert_says("setuid");
    folder.run(&["exec", "arena_max=2", "--", &ruby, "-e", "1"]).assert_code(0);
}

#[test]
fn a_library_for_another_machine_is_rejected_before_the_server_starts() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let mut foreign = fs::read(fs::canonicalize("/usr/bin/ruby").unwrap()).unwrap();
    foreign[18..20].copy_from_slice(&[0xf3, 0]);
    let foreign_path = folder.path("libriscv.so");
    fs::write(&foreign_path, foreign).unwrap();
    let setting = format!("allocator={}", foreign_path.display());
    let ran = folder.run(&["exec", &setting, "--", "ruby", "-e", "1"]);
    ran.assert_code(125).assert_says("is 64-bit riscv with glibc, but this ruby is");
}

/// With a library for another C library, musl's loader ends the program with exit code 127.
#[test]
fn a_library_for_another_c_library_is_rejected_before_the_server_starts() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let ruby = fs::canonicalize("/usr/bin/ruby").unwrap();
    let mut bytes = fs::read(&ruby).unwrap();
    let loader = memchr::memmem::find(&bytes, b"/lib64/ld-linux-x86-64.so.2").unwrap();
    bytes[loader..][..27].copy_from_slice(b"/lib/ld-musl-x86_64.so.1\0\0\0");
    fs::write(folder.path("ruby"), bytes).unwrap();
    let setting = format!("allocator={}", ruby.display());
    let ran = folder.run(&["exec", &setting, "--", "./ruby", "-e", "1"]);
    ran.assert_code(125)
        .assert_says("is 64-bit x86-64 with glibc, but this ruby is 64-bit x86-64 with musl");
}

#[test]
fn a_ruby_built_for_musl_keeps_running_and_reports_why_nothing_was_loaded() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let musl = "Object.send(:remove_const, :RUBY_PLATFORM); RUBY_PLATFORM = 'x86_64-linux-musl'";
    let first = folder.write("musl.rb", musl);
    let ran = folder
        .carat(&["exec", "compact=boot", "--", "ruby", "-e", "p defined?(CaratRuntime)"])
        .env("RUBYOPT", format!("-r{}", first.display()))
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && ran.stdout == b"nil\n", "{ran:?}");
    assert!(talk.contains("this Ruby is musl's") && talk.lines().count() == 1, "{talk}");
}

#[test]
fn two_versions_of_carat_in_one_tree_load_every_library_once_and_without_a_word() {
    require!(Ruby);
    let folder = Folder::new("exec");
    // Another version differs in its files and in their folder, and calls them by the same names.
    let other = folder.path("other");
    let own = carat::target::library::unpack(&folder.path("own")).unwrap();
    fs::create_dir(&other).unwrap();
    for file in fs::read_dir(&own.directory).unwrap().map(|entry| entry.unwrap().path()) {
        let mut content = fs::read(&file).unwrap();
        content.extend(b"\n# other\n");
        fs::write(other.join(file.file_name().unwrap()), content).unwrap();
    }
    let script = "loaded = $LOADED_FEATURES.grep(/carat_/).map { |f| f.split('/').last(2) }; \
                  p loaded.map { |dir, name| [dir == 'other', name] }.sort_by(&:last), CaratRuntime.report[:applied]";
    let ran = folder
        .carat(&["exec", "trim=full-gc", "--", "ruby", "-e", script])
        .env("RUBYOPT", format!("-r{}", other.join("carat_shim.rb").display()))
        .env("CARAT_PROBE", other.join("carat_probe.so"))
        .env("CARAT_RUNTIME", other.join("carat_runtime.so"))
        .output()
        .unwrap();
    let loaded = "[[true, \"carat_probe.so\"], [false, \"carat_runtime.so\"], [false, \"carat_shim.rb\"]]\n3\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), loaded, "{ran:?}");
    assert!(ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn a_home_that_cannot_be_written_does_not_stop_the_server() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let ran = folder
        .carat(&["exec", "compact=boot", "--", "ruby", "-e", "p defined?(CaratRuntime)"])
        .env("XDG_CACHE_HOME", "/proc/nowhere")
        .env("HOME", "/proc/nowhere")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "\"constant\"\n", "{ran:?}");
}

#[test]
fn without_any_folder_for_the_libraries_the_server_runs_and_one_line_says_what_to_do() {
    require!(Ruby, Mounts);
    let folder = Folder::new("exec");
    // Every folder that carat tries is on it, or cannot exist. The checkout itself may be in /tmp.
    let noexec = "mount --bind \"${1%/*}\" /mnt && mount -t tmpfs -o noexec none /tmp && \
                  mount -t tmpfs -o noexec none /var/cache && shift && exec /mnt/carat \"$@\"";
    let server = "print defined?(CaratRuntime).inspect, ' ', ENV['MALLOC_ARENA_MAX']";
    let carat = env!("CARGO_BIN_EXE_carat");
    for (cache, expected) in [("/tmp/cache", "mounted noexec"), ("/proc/none", "cannot be written")]
    {
        let ran = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", noexec, "sh", carat, "exec", "--verify"])
            .args(["compact=boot", "arena_max=2", "--", "ruby", "-e", server])
            .current_dir(folder.path(""))
            .env("XDG_CACHE_HOME", cache)
            .env("HOME", "/proc/none")
            .output()
            .unwrap();
        let talk = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "nil 2", "{talk}");
        let said = talk.contains(expected) && talk.contains("set XDG_CACHE_HOME");
        assert!(said && talk.contains("without compact=boot, --verify: "), "{talk}");
        assert_eq!(talk.lines().count(), 1, "{talk}");
    }
}

#[test]
fn without_a_folder_for_the_pages_the_server_runs_and_one_line_says_that_it_is_not_verified() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let file = folder.write("file", "").display().to_string();
    for temporary in ["/proc/none", &file] {
        for setting in ["arena_max=2", "trim=full-gc"] {
            let arguments = ["exec", "--verify", setting, "--", "ruby", "-e", "puts 'it runs'"];
            let ran = folder.carat(&arguments).env("TMPDIR", temporary).output().unwrap();
            let talk = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(String::from_utf8_lossy(&ran.stdout), "it runs\n", "{talk}");
            let said =
                format!("carat verify: not verified: cannot write in {temporary}; set TMPDIR");
            assert!(talk.starts_with(&said), "{talk}");
            assert_eq!(talk.lines().count(), 1, "{talk}");
        }
    }
}

#[test]
fn where_no_file_may_have_content_the_server_runs_all_the_same() {
    require!(Ruby);
    let folder = Folder::new("exec");
    let limited = "ulimit -f 0; exec \"$@\"";
    for cache in ["known", "new"] {
        let mut carat = folder.carat(&[]);
        if cache == "new" {
            carat.env("XDG_CACHE_HOME", folder.path("new")).env("HOME", "/proc/none");
        }
        let cache =
            carat.get_envs().find(|(name, _)| *name == "XDG_CACHE_HOME").unwrap().1.unwrap();
        let ran = std::process::Command::new("sh")
            .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_carat"), "exec", "--verify"])
            .args([
                "trim=full-gc",
                "arena_max=2",
                "--",
                "ruby",
                "-e",
                "fork { }; Process.wait; puts 'it runs'",
            ])
            .current_dir(folder.path(""))
            .env("XDG_CACHE_HOME", cache)
            .env("TMPDIR", folder.path("tmp"))
            .env_remove("RUBYOPT")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "it runs\n", "{ran:?}");
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    }
}

fn runs_without_carat_toml(folder: &Folder, why: &str) {
    let ran = folder.run(&["exec", "--", "sh", "-c", "echo arenas=$MALLOC_ARENA_MAX"]);
    ran.assert_code(0).assert_says("arenas=\n");
    let said = format!("carat exec: without carat.toml: {why}; name it with --config\n");
    assert_eq!(ran.talk, said);
}

#[test]
fn what_somebody_else_put_in_the_folder_as_carat_toml_stops_no_server() {
    let folder = Folder::new("exec");
    let path = folder.path("carat.toml");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    runs_without_carat_toml(&folder, "it is not a regular file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    runs_without_carat_toml(&folder, "it is not a regular file");
    fs::remove_dir(&path).unwrap();
    folder.write("secret", "password");
    std::os::unix::fs::symlink(folder.path("secret"), &path).unwrap();
    runs_without_carat_toml(&folder, "it is not a regular file");
    fs::remove_file(&path).unwrap();
    let large = fs::File::create(&path).unwrap();
    large.set_len(3 << 30).unwrap();
    runs_without_carat_toml(&folder, "it has more than 1048576 bytes");
    fs::remove_file(&path).unwrap();
    if rustix::process::geteuid().is_root() {
        folder.write("carat.toml", "[settings]\narena_max = 1\n");
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        runs_without_carat_toml(&folder, "it belongs to another user");
    }
}

#[test]
fn verify_reports_which_settings_were_applied() {
    require!(Ruby, Jemalloc);
    let folder = Folder::new("exec");
    let settings = ["allocator=jemalloc", "compact=boot", "trim=full-gc", "gc.malloc_limit=8m"];
    let mut arguments = vec!["exec", "--verify"];
    arguments.extend(settings);
    // Ends once the compaction is over and the verifier has had time to report it.
    let server = "require 'socket'; s = TCPServer.new('127.0.0.1', 0); \
                  sleep 0.1 until CaratRuntime.report[:compactions] > 0; sleep 5";
    arguments.extend(["--", "ruby", "-e", server]);
    let ran = folder.run(&arguments);
    for setting in ["allocator=jemalloc", "compact=boot", "trim=full-gc", "gc.malloc_limit=8388608"]
    {
        ran.assert_says(&format!("carat verify: {setting} applied"));
    }
}

#[test]
fn the_environment_can_be_printed_for_a_unit_file() {
    let folder = Folder::new("exec");
    let ran = folder.run(&["exec", "arena_max=2", "--print-env", "systemd", "--", "sh"]);
    assert_eq!(ran.out, "Environment=\"MALLOC_ARENA_MAX=2\"\n");
    assert_eq!(ran.code, Some(0));
}
