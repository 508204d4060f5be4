//! The probe when something fails or processes fork: the server runs on.

use crate::needs::TestRuby;
use crate::probe_ruby::{Bench, Ruby, wait_for};
use carat_model::Bytes;
use carat_model::ledger::PartKind;
use carat_proc::observe::{ledger, probe_figures, read_probe_figures};
use carat_proc::process::ProcRoot;
use carat_wire::env;
use carat_wire::page::{Feature, FeatureState, Gc, Malloc, Runtime};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

#[test]
fn children_and_grandchildren_have_pages_of_their_own(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let child: u32 = ruby
        .eval(
            "$r, $w = IO.pipe; $c = fork { $stdin.close; g = fork { sleep }; $w.puts(g); \
             Signal.trap('TERM') { Process.kill('KILL', g); exit! }; sleep }; $c",
        )
        .parse()
        .unwrap();
    let grandchild: u32 = ruby.eval("$r.gets.to_i").parse().unwrap();
    for (generation, pid, parent) in
        [(0, ruby.pid, None), (1, child, Some(ruby.pid)), (2, grandchild, Some(child))]
    {
        let seen = bench.ask(pid);
        assert_eq!(seen.pid, u64::from(pid), "{version:?}");
        assert_eq!(seen.fork_generation, generation, "{version:?}");
        assert!(parent.is_none_or(|parent| seen.parent_pid == u64::from(parent)), "{version:?}");
        assert!(seen.malloc.get(Malloc::InUse) > Some(0), "{version:?}");
        assert!(seen.heap_pages.pages > 0, "{version:?}");
    }
    ruby.eval("Process.kill('TERM', $c); Process.wait($c)");
    assert!(ruby.end().is_empty());
}

#[test]
fn a_thousand_forks_leave_the_parent_as_it_was(version: TestRuby) {
    let forks = if version == TestRuby::OnPath { 1000 } else { 100 };
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let forked = "$forks.times.count { pid = fork { exit!(0) }; Process.wait2(pid)[1].success? }";
    ruby.eval(&format!("$forks = {forks}"));
    assert_eq!(ruby.eval(forked), forks.to_string(), "{version:?}");
    let seen = ruby.ask();
    assert_eq!((seen.pid, seen.fork_generation), (u64::from(ruby.pid), 0));
    assert_eq!(fs::read_dir(&bench.pages).unwrap().count(), forks + 1, "{version:?}");
    assert!(ruby.end().is_empty());
}

#[test]
fn children_that_work_and_exit_in_order_do_so(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let worked = "pids = Array.new(8) { fork { $stdin.close; Array.new(20_000) { 'x' * 99 }; \
         GC.start; Thread.new { 1 }.join } }; \
         pids.count { |pid| Process.wait2(pid)[1].success? }";
    assert_eq!(ruby.eval(worked), "8", "{version:?}");
    assert!(ruby.end().is_empty());
}

#[test]
fn a_process_that_executes_itself_again_gets_a_new_page(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = bench.start(version.command(None));
    let first = ruby.ask().born;
    let again = "exec(RbConfig.ruby, '-e', '$stdout.sync = true; puts $$; \
         while $stdin.gets; puts 7; end')";
    assert_eq!(ruby.eval(again), ruby.pid.to_string(), "{version:?}");
    let seen =
        wait_for("a newer page", || bench.page(ruby.pid).read().filter(|seen| seen.born > first));
    assert_eq!(seen.fork_generation, 0);
    assert_eq!(ruby.eval("1"), "7");
    bench.ask(ruby.pid);
    assert!(ruby.end().is_empty());
}

#[test]
fn short_lived_processes_exit_successfully(version: TestRuby) {
    let bench = Bench::new();
    let mut command = version.command(None);
    let script = "20.times { |n| system(RbConfig.ruby, '-e', 'at_exit { GC.start }; exit 3'); \
         $?.exitstatus == 3 or abort($?.to_s) }; print :done";
    let out = bench.watch(&mut command).args(["-e", script]).output().unwrap();
    let talk = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.stdout.as_slice(), talk.as_ref()), (&b"done"[..], ""), "{version:?}");
    assert!(out.status.success());
}

#[test]
fn a_page_outlives_a_killed_process() {
    require!(Ruby);
    let bench = Bench::new();
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    ruby.eval("$keep = Array.new(1000) { 'x' * 1000 }; 1");
    let alive = ruby.ask();
    let page = bench.page(ruby.pid);
    drop(ruby);
    let dead = page.read().unwrap();
    assert_eq!(
        (dead.pid, &dead.pools, &dead.heap_pages),
        (alive.pid, &alive.pools, &alive.heap_pages)
    );
}

#[test]
fn without_a_directory_for_pages_the_server_runs_on() {
    require!(Ruby);
    let mut command = TestRuby::OnPath.command(None);
    let bench = Bench::new();
    let missing = bench.home.path().join("missing");
    bench.watch(&mut command).env(env::PAGES, &missing).args(["-e", "GC.start; print :served"]);
    let out = command.output().unwrap();
    let talk = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.stdout, b"served");
    assert_eq!(talk.lines().count(), 1, "{talk}");
    assert!(talk.starts_with("carat: probe: no shared page"), "{talk}");
}

#[test]
fn a_child_that_cannot_create_a_page_does_not_change_its_parents_page() {
    require!(Ruby);
    let bench = Bench::new();
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    let aside = bench.home.path().join("aside");
    let page = bench.page(ruby.pid);
    fs::rename(&bench.pages, &aside).unwrap();
    ruby.eval("Process.wait(fork { exit!(GC.start ? 1 : 0) }); $?.exitstatus");
    fs::rename(&aside, &bench.pages).unwrap();
    assert_eq!(page.read().unwrap().pid, u64::from(ruby.pid));
    assert_eq!(fs::read_dir(&bench.pages).unwrap().count(), 1);
    assert!(ruby.end().is_empty());
}

/// A library that hides one function of Ruby.
fn hiding(bench: &Bench, name: &str) -> PathBuf {
    fake_dlsym(bench, name, "0_usize", "0, 0, 0")
}

/// A library under which Ruby seems to have this version, such as `4, 1, 0`.
fn lying_about_the_version(bench: &Bench, version: &str) -> PathBuf {
    fake_dlsym(bench, "ruby_api_version", "&raw const VERSION", version)
}

/// A library that replaces `dlsym`: it returns `answer`, a Rust expression, for one name, and the real symbol otherwise.
fn fake_dlsym(bench: &Bench, name: &str, answer: &str, version: &str) -> PathBuf {
    let source = format!(
        r##"use std::ffi::{{CStr, c_char, c_void}};
        unsafe extern "C" {{
            fn dlvsym(scope: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
        }}
        static VERSION: [i32; 3] = [{version}];
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn dlsym(scope: *mut c_void, name: *const c_char) -> *mut c_void {{
            unsafe {{
                if scope.is_null() && CStr::from_ptr(name) == c"{name}" {{
                    let _ = &VERSION;
                    return {answer} as *mut c_void;
                }}
                let next = dlvsym(-1_isize as *mut c_void, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr());
                let next: extern "C" fn(*mut c_void, *const c_char) -> *mut c_void =
                    std::mem::transmute(next);
                next(scope, name)
            }}
        }}"##
    );
    let (path, library) =
        (bench.home.path().join("fake_dlsym.rs"), bench.home.path().join("libfake_dlsym.so"));
    fs::write(&path, source).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"]);
    assert!(rustc.arg(&library).arg(&path).status().unwrap().success());
    library
}

#[test]
fn a_ruby_that_is_too_old_runs_on_with_only_the_allocators_figures() {
    require!(Ruby);
    let bench = Bench::new();
    let library = lying_about_the_version(&bench, "2, 6, 0");
    let mut ruby = bench.start(TestRuby::OnPath.command(Some(&library)));
    assert_eq!(ruby.eval("GC.start; 6 * 7"), "42");
    let page = bench.page(ruby.pid);
    let seen = wait_for("malloc", || page.read().filter(|seen| seen.malloc.at.is_some()));
    assert!(seen.features.contains(&(Feature::Ruby, FeatureState::UnknownRuby)));
    assert!(seen.features.contains(&(Feature::Gc, FeatureState::NotYet)));
    let why = slots_unknown(&mut ruby).unwrap();
    assert_eq!(why, "this Ruby is older than 2.7");
    let talk = ruby.end();
    assert_eq!(talk.lines().count(), 1, "{talk}");
    assert!(talk.contains("Ruby 2.7 or later is required"), "{talk}");
}

#[test]
fn a_newer_ruby_is_observed_as_far_as_it_has_the_functions() {
    require!(Ruby);
    for version in ["4, 0, 0", "4, 1, 0", "5, 0, 0"] {
        let bench = Bench::new();
        let library = lying_about_the_version(&bench, version);
        let mut ruby = bench.start(TestRuby::OnPath.command(Some(&library)));
        assert_eq!(ruby.eval("GC.start; 6 * 7"), "42");
        let seen = ruby.ask();
        for feature in [Feature::Ruby, Feature::HeapPages, Feature::Pools] {
            assert!(seen.features.contains(&(feature, FeatureState::On)), "{version}: {feature:?}");
        }
        assert!(seen.gc.get(Gc::Major) > Some(0), "{version}");
        assert_eq!(slots_unknown(&mut ruby), None, "{version}");
        assert_eq!(ruby.end(), "", "{version}");
    }
}

#[test]
fn a_missing_function_costs_its_feature_and_nothing_else() {
    require!(Ruby);
    let bench = Bench::new();
    let library = hiding(&bench, "rb_objspace_each_objects");
    let mut ruby = bench.start(TestRuby::OnPath.command(Some(&library)));
    assert_eq!(ruby.eval("GC.start; 6 * 7"), "42");
    let seen = ruby.ask();
    assert!(seen.features.contains(&(Feature::HeapPages, FeatureState::NoFunction)));
    assert_eq!((seen.heap_pages.at, seen.pools.len()), (None, 1));
    assert!(seen.gc.get(Gc::LiveSlots) > Some(0));
    assert_eq!(slots_unknown(&mut ruby).unwrap(), "this Ruby does not list its heap pages");
    assert!(ruby.end().is_empty());
}

#[test]
fn where_allocations_cannot_be_sampled_the_page_says_why_and_the_server_runs_on() {
    require!(Ruby);
    let mut lying = Bench::new();
    lie_about_the_collector(&mut lying);
    let (lacking, newer) = (Bench::new(), Bench::new());
    let hidden = hiding(&lacking, "rb_profile_frames");
    let later = lying_about_the_version(&newer, "4, 1, 0");
    for (bench, library, expected) in [
        (&lacking, Some(&hidden), FeatureState::NoFunction),
        (&newer, Some(&later), FeatureState::UnknownRuby),
        (&lying, None, FeatureState::OtherCollector),
    ] {
        let mut ruby = bench.start(TestRuby::OnPath.command(library.map(PathBuf::as_path)));
        assert!(bench.page(ruby.pid).request_allocations(Duration::from_secs(600)));
        assert!(ruby.ask().features.contains(&(Feature::Allocations, expected)), "{expected:?}");
        assert_eq!(ruby.eval("Array.new(100_000) { Object.new }.size"), "100000");
        assert_eq!(bench.page(ruby.pid).read_allocations().unwrap().sites, []);
        assert!(ruby.end().is_empty());
    }
}

/// Makes every Ruby of this bench say that its collector is MMTk.
fn lie_about_the_collector(bench: &mut Bench) {
    let lie = bench.home.path().join("lie.rb");
    let shim = std::mem::replace(&mut bench.libraries.shim, lie.clone());
    let text = format!("def GC.config = {{ implementation: 'mmtk' }}\nrequire {shim:?}\n");
    fs::write(lie, text).unwrap();
}

#[test]
fn the_heap_of_another_collector_is_left_alone() {
    require!(Ruby);
    let mut bench = Bench::new();
    lie_about_the_collector(&mut bench);
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    assert_eq!(ruby.eval("GC.start; 6 * 7"), "42");
    let seen = ruby.ask();
    for feature in [Feature::HeapPages, Feature::Pools] {
        assert!(seen.features.contains(&(feature, FeatureState::OtherCollector)), "{feature:?}");
    }
    assert_eq!((seen.heap_pages.pages, seen.pools.len()), (0, 0));
    assert!(seen.gc.get(Gc::Count) > Some(0));
    assert_eq!(slots_unknown(&mut ruby).unwrap(), "the collector is not CRuby's own");
    assert!(ruby.end().is_empty());
}

#[test]
fn the_runtime_of_a_ruby_built_for_musl_reports_in_the_page_of_its_probe() {
    require!(Ruby);
    let mut bench = Bench::new();
    let own = bench.libraries.clone();
    // In truth those for glibc: what counts is the name under which each finds the other.
    for library in [&own.probe, &own.runtime] {
        fs::rename(library, library.with_extension("musl.so")).unwrap();
    }
    let lie = bench.home.path().join("lie.rb");
    let musl = "Object.send(:remove_const, :RUBY_PLATFORM); RUBY_PLATFORM = 'x86_64-linux-musl'";
    fs::write(&lie, format!("{musl}\nrequire {:?}\n", own.shim)).unwrap();
    bench.libraries.shim = lie;
    let mut command = Command::new("env");
    command.arg(format!("CARAT_RUNTIME={}", own.runtime.display()));
    command.args(["CARAT_SETTINGS=trim=full-gc", "ruby"]);
    let mut ruby = bench.start(command);
    assert_eq!(ruby.eval("CaratRuntime.report[:applied]"), "1");
    let seen = bench.page(ruby.pid).read().unwrap();
    assert_eq!(seen.runtime.get(Runtime::Applied), Some(1));
    assert!(ruby.end().is_empty());
}

/// A function in place of `rb_gc_stat` that knows every key and returns a thousand less each time.
const FALLING: &str = r#"{
    use std::sync::atomic::{AtomicUsize, Ordering};
    static LEFT: AtomicUsize = AtomicUsize::new(1_000_000_000);
    extern "C" fn stat(_key: usize) -> usize {
        LEFT.fetch_sub(1000, Ordering::Relaxed)
    }
    stat as extern "C" fn(usize) -> usize
}"#;

#[test]
fn the_bytes_that_ruby_itself_holds_from_malloc_are_allocated_less_freed() {
    require!(Ruby);
    let bench = Bench::new();
    let library = fake_dlsym(&bench, "rb_gc_stat", FALLING, "0, 0, 0");
    let mut ruby = bench.start(TestRuby::OnPath.command(Some(&library)));
    assert_eq!(ruby.eval("6 * 7"), "42");
    // The two keys are read one after the other.
    assert_eq!(probe_figures(&ruby.ask()).malloc_of_ruby, Some(Bytes(1000)));
    assert!(ruby.end().is_empty());
}

#[test]
fn another_collectors_own_figure_is_beside_the_unknown_slots() {
    require!(Ruby);
    let mut bench = Bench::new();
    let library = fake_dlsym(&bench, "rb_gc_stat", FALLING, "0, 0, 0");
    lie_about_the_collector(&mut bench);
    let mut ruby = bench.start(TestRuby::OnPath.command(Some(&library)));
    assert_eq!(ruby.eval("6 * 7"), "42");
    let why = slots_unknown(&mut ruby).unwrap();
    assert!(why.starts_with("the collector is not CRuby's own, which uses 999."), "{why}");
    assert!(ruby.end().is_empty());
}

/// Why the ledger of this Ruby cannot tell slots from malloc. Where it cannot, no part calls memory live or free.
fn slots_unknown(ruby: &mut Ruby<'_>) -> Option<String> {
    let root = ProcRoot::default();
    let members = [root.identify(ruby.pid).unwrap()];
    let seen = ledger(&root, &members, &read_probe_figures(&root, &members));
    let [process] = seen.processes.as_slice() else { panic!("{seen:?}") };
    let told_apart = [PartKind::SlotsLive, PartKind::SlotsFree, PartKind::MallocLive];
    let has_parts = told_apart.iter().any(|&kind| seen.part(kind).is_some());
    assert_eq!(process.slots_unknown.is_none(), has_parts, "{seen:?}");
    process.slots_unknown.clone()
}

#[test]
fn no_two_processes_share_a_page() {
    require!(Ruby);
    let bench = Bench::new();
    let mut ruby = bench.start(TestRuby::OnPath.command(None));
    let pids = ruby.eval("$c = Array.new(8) { fork { $stdin.close; sleep } }; $c.join(' ')");
    let pids: BTreeSet<u64> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let seen: BTreeSet<u64> = pids.iter().map(|pid| bench.ask(*pid as u32).pid).collect();
    assert_eq!(seen, pids);
    ruby.eval("$c.each { |pid| Process.kill('KILL', pid) }; Process.waitall.size");
}
