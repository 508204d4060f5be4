//! Settings for preloaded applications: what holds before the fork, in a worker of a preloaded server, and in one that loads
//! the application itself.

use crate::needs::TestRuby;
use crate::runtime::{printed, run, run_on, write_parts};
use crate::support::Folder;

/// A server that listens, then `parent`, and a worker that runs `worker`. The application is in 30 files that `load` loads, or
/// in a file of Rack's that `rackup` evaluates; `bits` are the settings that count as applied, not preloaded and refused.
fn server(folder: &Folder, parent: &str, worker: &str) -> String {
    write_parts(folder, 30);
    format!(
        "require 'socket'\nserver = TCPServer.new('127.0.0.1', 0)\n\
         load = ->(files) {{ files.times {{ |number| require '{}/part' + number.to_s }} }}\n\
         rackup = -> {{ eval('1', binding, 'config.ru') }}\n\
         bits = -> {{ CaratRuntime.report.values_at(:applied, :not_preloaded, :refused) }}\n\
         {parent}\nProcess.wait(fork do\n{worker}\nend)",
        folder.path("").display()
    )
}

#[test]
fn what_was_done_before_the_fork_is_not_applied_in_a_worker_that_loads_the_application_itself() {
    require!(Ruby);
    let folder = Folder::new("own");
    for (loads, expected) in [
        ("", "[3, 0, 0]\n"),
        ("load.call(30)", "[0, 3, 0]\n"),
        ("rackup.call", "[0, 3, 0]\n"),
        // What has been loaded then is preloaded for the workers of this worker.
        ("rackup.call; Process.wait(fork { p bits.call })", "[3, 0, 0]\n[3, 0, 0]\n"),
    ] {
        let script = server(&folder, "", &format!("{loads}\np bits.call"));
        let settings = ["prepare_fork=full", "worker_growth=20000"];
        assert_eq!(printed(&settings, &script), expected, "{loads}");
    }
}

#[test]
fn a_worker_of_a_preloaded_application_may_evaluate_and_load_late_what_it_needs() {
    require!(Ruby);
    let folder = Folder::new("late");
    // Rails compiles templates, and loads some files, only when a page needs them.
    let templates = "200.times { |number| Object.class_eval(\"def page#{number}; end\") }";
    let features = "$LOADED_FEATURES.concat((0...400).map { |number| \"/app/#{number}.rb\" })";
    for (parent, files) in [("rackup.call", 30), (features, 30), ("", 15)] {
        let worker = format!("{templates}\nload.call({files})\np bits.call");
        let script = server(&folder, parent, &worker);
        assert_eq!(printed(&["worker_growth=20000"], &script), "[1, 0, 0]\n", "{parent}");
    }
}

#[test]
fn a_server_boots_with_ruby_s_own_limits_whatever_its_workers_get() {
    require!(Ruby);
    let script = "kept = Array.new(300_000) { +'x' }\nputs GC.count, Thread.list.size, GC.enable";
    let [with, without] =
        ["worker_growth=20000", "trim=full-gc"].map(|setting| printed(&[setting], script));
    let count = |text: &str| text.lines().next().unwrap().parse::<i64>().unwrap();
    assert!((count(&with) - count(&without)).abs() <= 3, "{with} {without}");
    assert!(with.ends_with("\n1\nfalse\n"), "{with}");
}

/// Pages by which the heap of a worker has grown when 300,000 objects of its own live, and collections until then.
const GROWS: &str = "pages, count = GC.stat(:heap_eden_pages), GC.count
kept = Array.new(300_000) { +'x' }
puts [GC.stat(:heap_eden_pages) - pages, GC.count - count].join(' ')";

fn grown(folder: &Folder, settings: &[&str], loads: &str) -> Vec<u64> {
    let live = "kept = Array.new(400_000) { +'y' }";
    let text = printed(settings, &server(folder, live, &format!("{loads}\n{GROWS}")));
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_worker_collects_more_often_under_the_limit_and_as_ruby_does_when_it_loads_the_application() {
    require!(Ruby);
    let folder = Folder::new("limits");
    let limit = ["worker_growth=5000"];
    let limited = grown(&folder, &limit, "")[1];
    let [own, usual] =
        [grown(&folder, &limit, "rackup.call"), grown(&folder, &["trim=full-gc"], "")]
            .map(|one| one[1]);
    assert!(limited > 2 * own.max(2), "{limited} collections, {own} by Ruby's own limits");
    assert!(own.abs_diff(usual) <= 4, "{own} collections, {usual} without the setting");
}

#[test]
fn a_variable_of_the_user_overrides_the_limits_of_a_worker() {
    require!(Ruby);
    let folder = Folder::new("override");
    let limit = ["worker_growth=5000"];
    let free =
        [&limit[..], &["gc.free_slots_min_ratio=0.3", "gc.growth_max_slots=4000000"]].concat();
    let [limited, free] = [&limit[..], &free].map(|settings| grown(&folder, settings, "")[1]);
    assert!(
        free < limited,
        "{free} collections with the user's limits, {limited} with the setting's"
    );
}

#[test]
fn where_ruby_keeps_its_limits_in_an_unknown_way_the_setting_is_refused() {
    require!(Ruby);
    let folder = Folder::new("unknown");
    // Ruby reads a number of any base, so the place where it keeps this one is not found.
    let mut ruby = TestRuby::OnPath.command(None);
    ruby.env("RUBY_GC_HEAP_FREE_SLOTS", "0x5000");
    folder.write("script.rb", &server(&folder, "", "p bits.call"));
    let printed = run_on(ruby, &folder.path(""), "worker_growth=5000", &["script.rb"]);
    assert!(printed.starts_with("[0, 0, 1]\n"), "{printed}");
    let refusal = "worker_growth was not applied: this Ruby keeps the limits";
    assert!(printed.contains(refusal), "{printed}");
}

#[test]
fn a_process_that_is_forked_while_the_application_boots_is_no_worker() {
    require!(Ruby);
    let folder = Folder::new("boots");
    let rails = "module Rails\n  class Application\n    def initialized? = @initialized\n\
                     def initialize! = @initialized = true\n  end\n\
                   def self.application = @application ||= Application.new\nend\n\
                 Rails.application\nfork_helper = -> { Process.wait(fork { p bits.call }) }";
    for (loads, ends) in [
        ("eval('Process.wait(fork { p bits.call })', binding, 'config.ru')", ""),
        (&*format!("{rails}; fork_helper.call"), "Rails.application.initialize!"),
        (&*format!("{rails}; rackup.call; fork_helper.call"), "Rails.application.initialize!"),
    ] {
        let parent = format!("{loads}\np bits.call\n{ends}");
        let script = server(&folder, &parent, "p bits.call, CaratRuntime.report[:assumed]");
        let settings = ["prepare_fork=full", "worker_growth=20000"];
        assert_eq!(printed(&settings, &script), "[0, 0, 0]\n[0, 0, 0]\n[3, 0, 0]\n0\n", "{loads}");
    }
}

#[test]
fn a_server_forks_also_where_what_it_calls_rails_cannot_be_asked() {
    require!(Ruby);
    let folder = Folder::new("asked");
    for (rails, warns) in [("nil", false), ("'app'", false), ("raise('no database')", true)] {
        let parent = format!("module Rails; def self.application = {rails}; end");
        let settings = ["prepare_fork=full", "compact=boot"];
        let ran = run(&settings, &server(&folder, &parent, "puts :forked"));
        ran.assert_code(0);
        assert_eq!(ran.out, "forked\n", "{rails}: {}", ran.talk);
        let warned =
            ran.talk.contains("carat: a fork cannot be prepared: RuntimeError: no database");
        assert_eq!(warned, warns, "{}", ran.talk);
    }
}

/// A compiler that answers as Ruby's own and does nothing, on a Ruby that may have been built without one.
fn write_compiler(folder: &Folder) {
    folder.write(
        "compiler.rb",
        "class RubyVM; remove_const(:YJIT) if const_defined?(:YJIT, false); end\n\
         module RubyVM::YJIT\n  def self.enabled?; @enabled ? true : false; end\n\
           def self.enable(**); enabled? ? false : (@enabled = true); end\nend",
    );
}

const COMPILER: [&str; 2] = ["-r", "./compiler.rb"];

/// What `script.rb` prints after these options of Ruby.
fn run_after(folder: &Folder, settings: &str, options: &[&str]) -> String {
    let arguments = [options, &["script.rb"]].concat();
    run_on(TestRuby::OnPath.command(None), &folder.path(""), settings, &arguments)
}

#[test]
fn a_compiler_that_is_enabled_before_the_fork_is_refused() {
    require!(Ruby);
    let folder = Folder::new("yjit");
    write_compiler(&folder);
    let refusal = "carat: yjit was not applied: YJIT is enabled before the fork";
    for (parent, bits) in [("", "[1, 0, 0]\n"), ("RubyVM::YJIT.enable", "[0, 0, 1]\n")] {
        folder.write("script.rb", &server(&folder, parent, "p bits.call"));
        let printed = run_after(&folder, "yjit=after-fork", &COMPILER);
        assert!(printed.starts_with(bits), "{printed}");
        assert_eq!(printed.contains(refusal), !parent.is_empty(), "{printed}");
    }
}

#[test]
fn a_worker_that_forks_others_gives_them_its_compiler_without_a_word() {
    require!(Ruby);
    let folder = Folder::new("yjit-workers");
    write_compiler(&folder);
    let worker = "p bits.call\nProcess.wait(fork { p bits.call })\np bits.call";
    folder.write("script.rb", &server(&folder, "", worker));
    let printed = run_after(&folder, "yjit=after-fork", &COMPILER);
    assert_eq!(printed, "[1, 0, 0]\n[1, 0, 0]\n[1, 0, 0]\n");
}

#[test]
fn the_newer_compiler_is_applied_only_where_ruby_says_that_it_is_enabled() {
    require!(Ruby);
    let folder = Folder::new("zjit");
    folder.write("script.rb", "p CaratRuntime.report.values_at(:applied, :refused)");
    for (zjit, expected) in [
        ("module RubyVM::ZJIT; def self.enabled? = true; end", "[1, 0]\n"),
        ("module RubyVM::ZJIT; def self.enabled? = false; end", "[0, 1]\n"),
        ("", "[0, 1]\n"),
    ] {
        folder.write("compiler.rb", zjit);
        let printed = run_after(&folder, "zjit=on", &COMPILER);
        let refused = printed.contains("carat: zjit was not applied: ");
        assert!(printed.contains(expected) && refused == (expected != "[1, 0]\n"), "{printed}");
    }
}

#[test]
fn a_compiler_that_is_to_be_off_stays_off_where_the_application_enables_it() {
    require!(Ruby);
    let folder = Folder::new("yjit-off");
    write_compiler(&folder);
    let enables = "p RubyVM::YJIT.enable(mem_size: 64), RubyVM::YJIT.enabled?, bits.call";
    folder.write("script.rb", &server(&folder, "p bits.call", enables));
    folder.write("enabled.rb", "RubyVM::YJIT.enable");
    assert_eq!(run_after(&folder, "yjit=off", &COMPILER), "[1, 0, 0]\nfalse\nfalse\n[1, 0, 0]\n");
    let enabled = [&COMPILER[..], &["-r", "./enabled.rb"]].concat();
    let before = run_after(&folder, "yjit=off", &enabled);
    assert!(before.starts_with("[0, 0, 1]\n") && before.contains("has enabled YJIT"), "{before}");
}

#[test]
fn a_ruby_that_is_started_with_its_compiler_off_has_it_off() {
    require!(Ruby);
    let folder = Folder::new("yjit-off");
    let asks = "p((RubyVM::YJIT.enabled? if defined?(RubyVM::YJIT.enabled?)) ? true : false)";
    let ran = folder.run(&["exec", "yjit=off", "--verify", "--", "ruby", "-e", asks]);
    ran.assert_code(0);
    assert_eq!(ran.out, "false\n", "{}", ran.talk);
}
