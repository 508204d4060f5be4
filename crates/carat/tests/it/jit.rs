//! Ruby's compiler on a real Ruby with YJIT: what the ledger, the reader from outside and the comparison with the parent say of it,
//! and the settings for it.

use crate::needs::{TestRuby, roots_folder, roots_script};
use crate::outside_explain::{cause, fork_child, table_that_adds_up};
use crate::outside_ruby::OutsideRuby;
use crate::probe_ruby::Bench;
use crate::runtime::{folder_for_roots, run_on};
use crate::support::{Folder, Ran, TWO_VARIANTS, finish};
use carat_model::ledger::PartKind;
use carat_model::{GrowthKind, PartGrowth, TrackedPart};
use carat_outside::census::LookOptions;
use carat_outside::owners::HolderKind;
use carat_proc::observe::{ledger, read_probe_figures};
use carat_proc::process::ProcRoot;
use std::fs;
use std::process::{Command, Stdio};

pub(crate) const YJIT: TestRuby = TestRuby::InRoot("yjit");

/// Methods, each of which is called so often that it is compiled, in a line of Ruby.
fn compile(name: &str, methods: u32, calls: u32) -> String {
    format!(
        "{methods}.times {{ |n| Object.class_eval(\"def {name}#{{n}}(a) = [a, n = a.to_s, n.size].map {{ |x| x.hash + #{{n}} }}.sum\") }}; \
         {calls}.times {{ {methods}.times {{ |n| send(\"{name}#{{n}}\", 1) }} }}; 1"
    )
}

fn enabled(ruby: TestRuby) -> Command {
    let mut command = ruby.command(None);
    command.env("RUBY_YJIT_ENABLE", "1");
    command
}

/// A figure of YJIT's own.
fn figure(ruby: &mut OutsideRuby, key: &str) -> u64 {
    ruby.eval(&format!("RubyVM::YJIT.runtime_stats[:{key}]")).parse().unwrap()
}

/// Whether two amounts differ by at most such a share.
fn is_near(one: u64, other: u64, share: f64) -> bool {
    one.abs_diff(other) as f64 <= share * other as f64
}

#[test]
fn the_reader_from_outside_finds_code_methods_and_tables_as_yjit_counts_them() {
    require!(Roots("yjit"));
    let mut ruby = OutsideRuby::start_command(enabled(YJIT));
    ruby.eval(&compile("jit", 1_500, 40));
    let [compiled, region, heap] = ["compiled_iseq_count", "code_region_size", "yjit_alloc_size"]
        .map(|key| figure(&mut ruby, key));
    let census = ruby.look(&LookOptions { owners: true, ..LookOptions::default() });
    let jit = census.jit.unwrap_or_else(|| panic!("{:?}", census.unknown));
    assert!(compiled > 1_500 && is_near(jit.compiled, compiled, 0.02), "{jit:?} of {compiled}");
    assert!(is_near(jit.code_bytes, region, 0.05), "{jit:?} of {region}");
    assert_eq!(jit.private_bytes, jit.code_bytes, "nobody shares it");
    assert_eq!(jit.reserved_bytes, Some(48 << 20));
    // Without malloc's headers and what it adds to each chunk, 16 bytes in the mean.
    let tables = jit.tables.unwrap();
    let requested = (tables.bytes - 16 * tables.chunks) as f64 / heap as f64;
    assert!((0.8..1.1).contains(&requested), "{tables:?} of {heap}");
    let owners = census.owners.unwrap();
    let named = owners.holders.iter().find(|holder| holder.kind == HolderKind::Jit).unwrap();
    assert_eq!((named.name.as_str(), named.amount), ("YJIT", tables));
    let folder = Folder::new("jit");
    let ran = folder.run(&["explain", &ruby.pid.to_string(), "--owners"]);
    ran.assert_code(0).assert_says("tables of YJIT").assert_says("of addresses, ");
    ran.assert_says(" methods and blocks compiled, ");
}

#[test]
fn without_the_compiler_nothing_is_said_of_it() {
    require!(Roots("yjit"));
    let mut ruby = OutsideRuby::start(YJIT);
    ruby.eval(&compile("jit", 100, 40));
    let census = ruby.look(&LookOptions { owners: true, ..LookOptions::default() });
    assert_eq!(census.jit, None);
    let folder = Folder::new("jit");
    let text = folder.run(&["explain", &ruby.pid.to_string(), "--details", "--owners"]).out;
    assert!(!text.contains("JIT"), "{text}");
}

#[test]
fn the_probe_reports_what_the_compiler_counts_and_that_it_is_off() {
    require!(Roots("yjit"));
    let bench = Bench::new();
    let root = ProcRoot::default();
    for on in [true, false] {
        let command = if on { enabled(YJIT) } else { YJIT.command(None) };
        let mut ruby = bench.start(command);
        ruby.eval(&compile("jit", 500, 40));
        let members = [root.identify(ruby.pid).unwrap()];
        let found = ledger(&root, &members, &read_probe_figures(&root, &members));
        let jit = found.processes[0].jit.unwrap();
        let code = found.part(PartKind::Jit).map_or(0, |part| part.pss.0);
        assert_eq!(found.jit_code().map(|bytes| bytes.0), Some(code));
        if on {
            let mut ask = |key: &str| -> u64 {
                ruby.eval(&format!("RubyVM::YJIT.runtime_stats[:{key}]")).parse().unwrap()
            };
            assert!(is_near(jit.compiled.unwrap(), ask("compiled_iseq_count"), 0.02), "{jit:?}");
            assert!(is_near(jit.heap.unwrap().0, ask("yjit_alloc_size"), 0.02), "{jit:?}");
            assert!(code > 100_000 && jit.reserved.unwrap().0 == 48 << 20, "{code} {jit:?}");
            assert_eq!(found.of_jit(|jit| jit.compiled), jit.compiled);
        } else {
            assert_eq!((jit.compiled, jit.heap, jit.reserved, code), (Some(0), None, None, 0));
        }
        ruby.end();
    }
}

#[test]
fn the_causes_of_a_workers_private_memory_name_what_its_compiler_did_since_the_fork() {
    require!(Roots("yjit"));
    let folder = Folder::new("jit-unshared");
    let causes = ["jit_code", "jit_patches", "jit_fields", "jit_tables"];
    let mut of_jit = Vec::new();
    // A worker that compiles 1,000 methods of its parent, and one whose parent has compiled them.
    for calls in [1, 40] {
        let mut ruby = OutsideRuby::start_command(enabled(YJIT));
        ruby.eval(&compile("warm", 200, 40));
        ruby.eval(&compile("jit", 1_000, calls));
        let child = fork_child(&mut ruby, "40.times { 1_000.times { |n| send(\"jit#{n}\", 1) } }");
        let table = table_that_adds_up(&folder, &ruby, child, &format!("{calls} calls"));
        of_jit.push(causes.map(|name| cause(&table, name)));
        assert_eq!(cause(&table, "unread"), 0.0, "{table}");
        let text = folder.run(&["explain", &ruby.pid.to_string(), "--unshared"]).out;
        let remedy = "`warm = \"auto\"`";
        assert_eq!(text.contains(remedy), calls == 1, "{text}");
        assert!(!text.contains("fewer collections in workers") || calls != 1, "{text}");
        ruby.eval("Process.kill(:KILL, $child); Process.wait($child); 1");
    }
    let [cold, warm] = [0, 1].map(|at| of_jit[at].iter().sum::<f64>());
    for (name, bytes) in causes.iter().zip(of_jit[0]).filter(|(name, _)| **name != "jit_patches") {
        assert!(bytes > 100_000.0, "{name}: {of_jit:?}");
    }
    assert!(warm < cold / 4.0, "{of_jit:?}");
}

#[test]
fn a_compiler_that_starts_late_is_no_leak_and_the_recording_says_why() {
    require!(Roots("yjit"));
    let folder = Folder::new("late-jit");
    record_growing(&folder, "compile").assert_says("; Ruby's compiler may have taken up to ");
    let recording = carat::store::recording::read(&folder.path("g.jsonl")).unwrap();
    for part in [TrackedPart::Memory, TrackedPart::Private, TrackedPart::MallocLive] {
        let found = recording.growth.iter().find(|one| one.part == part).unwrap();
        assert_eq!(found.kind, GrowthKind::Undecided, "{found:?}");
        // A part may have too few readings, which is undecided, too. The rate of few requests is no exact one.
        let grown = found.interval.unwrap_or_default().0 * found.over;
        assert!(found.compiler.is_none_or(|most| grown <= most), "{found:?}");
    }
    folder.assert_nothing_left();
}

#[test]
fn a_leak_beside_a_compiler_that_was_done_before_is_a_leak() {
    require!(Roots("yjit"));
    let folder = Folder::new("done-jit");
    let ran = record_growing(&folder, "compile_then_leak");
    let recording = carat::store::recording::read(&folder.path("g.jsonl")).unwrap();
    let leak = |one: &&PartGrowth| one.part == TrackedPart::Memory;
    let leak = recording.growth.iter().find(leak).unwrap();
    // All code that it has would explain the leak.
    let code = recording.ledger.as_ref().unwrap().jit_code().unwrap().0 as f64;
    assert!(leak.rate.unwrap() * leak.over < code, "{leak:?} {code}");
    assert_eq!((leak.kind, leak.compiler), (GrowthKind::Linear, None), "{}", ran.out);
    folder.assert_nothing_left();
}

#[test]
fn in_trials_a_leak_beside_a_compiler_that_was_done_before_the_load_is_a_leak() {
    require!(Roots("yjit"));
    let folder = Folder::new("done-jit-trial");
    copy_growing_server(&folder);
    let root = roots_folder().join("yjit");
    let plan = format!(
        r#"
name = "leaks"
[server]
command = ["ruby", "server.rb", "compile_then_leak"]
env = {{ PORT = "{{port}}" }}
ready = {{ http = "/", within = "60s" }}
settings = {{ root = "{}" }}
[load.http]
path = "/"
connections = 2
rate = 3000
requests = 36000
warmup = 100
{TWO_VARIANTS}
warmup_block = false
[measure]
sample_every = "50ms"
"#,
        root.display()
    );
    folder.write("leaks.toml", &plan);
    let mut program = with_roots(&folder, &["compare", "leaks.toml"]);
    finish(program.spawn().unwrap()).assert_code(3);
    let report = folder.run(&["report", "leaks.carat", "--json"]);
    let results: serde_json::Value = serde_json::from_str(&report.assert_code(0).out).unwrap();
    for trial in results["results"]["trials"].as_array().unwrap() {
        let samples = trial["samples"].as_array().unwrap().iter();
        let ledgers = samples.filter(|sample| sample["ledger"].is_object()).count();
        assert_eq!(ledgers, 2, "one before the load and one after it: {trial}");
    }
    let growth = results["results"]["growth"].as_array().unwrap();
    assert_eq!(growth.len(), 2);
    for variant in growth {
        let mut parts = variant["parts"].as_array().unwrap().iter();
        let memory = parts.find(|part| part["part"] == "memory").unwrap();
        assert_eq!(
            (&memory["kind"], memory["compiler"].is_null()),
            (&"linear".into(), true),
            "{memory}"
        );
    }
    folder.assert_nothing_left();
}

/// Carat with a server in a root, which sees this folder and not the cache of the tests.
fn with_roots(folder: &Folder, arguments: &[&str]) -> Command {
    let mut program = folder.carat(arguments);
    program.env("XDG_CACHE_HOME", folder.path("cache")).env("CARAT_ROOTS", roots_folder());
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    program
}

fn copy_growing_server(folder: &Folder) {
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/growing_server.rb");
    fs::copy(server, folder.path("server.rb")).unwrap();
}

/// Records 30,000 requests to `bench/growing_server.rb` in the root with YJIT.
fn record_growing(folder: &Folder, mode: &str) -> Ran {
    copy_growing_server(folder);
    let port = carat::target::free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let script = roots_script();
    let command = [script.to_str().unwrap(), "--run", "yjit", "--", "ruby", "server.rb", mode];
    let load = ["record", "--load", &url, "--rate", "2000", "-n", "30000", "--every", "50ms"];
    let mut program = with_roots(folder, &[&load[..], &["-o", "g.jsonl", "--"], &command].concat());
    let ran = finish(program.env("PORT", port.to_string()).spawn().unwrap());
    ran.assert_code(0).assert_says("the load was over").assert_says("all memory");
    ran
}

/// Runs a preloaded server that forks one worker; both print how much they have compiled, the parent after the worker.
fn compiled_in(settings: &str, parent: &str) -> String {
    let folder = folder_for_roots();
    let script = format!(
        "require 'socket'\nserver = TCPServer.new('127.0.0.1', 0)\n\
         load = -> {{ {} }}\n\
         compiled = -> {{ RubyVM::YJIT.enabled? ? RubyVM::YJIT.runtime_stats[:compiled_iseq_count] : 0 }}\n\
         bits = -> {{ CaratRuntime.report.values_at(:applied, :refused) }}\n\
         {parent}\nload.call\n\
         Process.wait(fork {{ load.call; p [compiled.call > 100, bits.call] }})\np compiled.call > 100",
        compile("jit", 300, 40)
    );
    fs::write(folder.path().join("script.rb"), script).unwrap();
    run_on(YJIT.command(None), folder.path(), settings, &["script.rb"])
}

#[test]
fn a_compiler_after_the_fork_is_applied_only_where_the_parent_did_not_compile() {
    require!(Roots("yjit"));
    assert_eq!(compiled_in("yjit=after-fork", ""), "[true, [1, 0]]\nfalse\n");
    let early = compiled_in("yjit=after-fork", "RubyVM::YJIT.enable");
    assert!(early.starts_with("[true, [0, 1]]\ntrue\n"), "{early}");
    assert!(early.contains("yjit was not applied: YJIT is enabled before the fork"), "{early}");
    assert_eq!(compiled_in("yjit=off", "RubyVM::YJIT.enable"), "[false, [1, 0]]\nfalse\n");
}

/// What a Ruby prints that was started with options in RUBYOPT, settings and arguments.
fn with_options(ruby: TestRuby, options: &str, settings: &str, arguments: &[&str]) -> String {
    let home = folder_for_roots();
    let libraries = carat::target::library::unpack(&home.path().join("carat")).unwrap();
    let mut command = ruby.command(None);
    let output = command
        .args(arguments)
        .env("CARAT_SETTINGS", settings)
        .env("CARAT_RUNTIME", &libraries.runtime)
        .env("RUBYOPT", format!("{options} -r{}", libraries.shim.display()))
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&printed).into_owned()
}

#[test]
fn options_of_the_compiler_hold_where_it_is_enabled_later_and_do_not_enable_it() {
    require!(Roots("yjit"));
    let script = format!(
        "print RubyVM::YJIT.enabled?, ' ', RubyVM::YJIT.enable, ' '\n{}\n\
         maps = File.read('/proc/self/maps')\n\
         from = maps[/^(\\h+)-\\h+ r-xp 0+ 00:00 0 *$/, 1].hex\n\
         to = maps.scan(/^(\\h+)-(\\h+) ---p 0+ 00:00 0 *$/).map {{ |pair| pair.map(&:hex) }}.find {{ |start, _| start > from }}.last\n\
         puts [(to - from) >> 20, RubyVM::YJIT.runtime_stats[:compiled_iseq_count] > 300, \
         CaratRuntime.report.values_at(:applied, :refused)].inspect",
        compile("jit", 400, 6)
    );
    let options = "--yjit-exec-mem-size=8 --yjit-call-threshold=5 --yjit-code-gc --yjit-disable";
    let settings = "yjit_exec_mem=8;yjit_call_threshold=5;yjit_code_gc=on";
    assert_eq!(
        with_options(YJIT, options, settings, &["-e", &script]),
        "false true [8, true, [7, 0]]\n"
    );
    // By Ruby's own threshold, nothing is compiled at the sixth call.
    let one = "--yjit-exec-mem-size=8 --yjit-disable";
    let other = with_options(YJIT, one, settings, &["-e", &script]);
    assert!(other.starts_with("false true [8, false, [1, 6]]\n"), "{other}");
    assert!(other.contains("RUBYOPT has no --yjit-call-threshold=5"), "{other}");
}

#[test]
fn an_option_of_the_command_enables_the_compiler_beside_the_settings() {
    require!(Roots("yjit"));
    let options = "--yjit-call-threshold=5 --yjit-disable";
    let asks = "p RubyVM::YJIT.enabled?, CaratRuntime.report[:applied]";
    for (settings, expected) in
        [("yjit_call_threshold=5", "true\n1\n"), ("yjit=off;yjit_call_threshold=5", "false\n3\n")]
    {
        let printed = with_options(YJIT, options, settings, &["--yjit", "-e", asks]);
        assert_eq!(printed, expected, "{settings}");
    }
}

#[test]
fn a_ruby_without_the_compiler_starts_with_its_options_and_refuses_the_settings() {
    require!(Roots("trixie"));
    let asks = "p CaratRuntime.report.values_at(:applied, :refused)";
    let options = "--yjit-exec-mem-size=8 --yjit-disable";
    let printed =
        with_options(TestRuby::InRoot("trixie"), options, "yjit_exec_mem=8", &["-e", asks]);
    assert!(printed.contains("[0, 1]\n"), "{printed}");
    let refusal = "yjit_exec_mem was not applied: this Ruby was built without YJIT";
    assert!(printed.contains(refusal), "{printed}");
    let folder = Folder::new("jit-options");
    let ran = folder.run(&["exec", "yjit_exec_mem=1", "--", "ruby"]);
    ran.assert_says("a whole number from 4 to 2048");
    assert_ne!(ran.code, Some(0));
}
