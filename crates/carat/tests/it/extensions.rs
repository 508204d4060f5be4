//! Real C extensions that a compaction can crash, and what is said when one of them is loaded.

use crate::harness::skip;
use crate::needs::TestRuby;
use crate::runtime::run_on;
use crate::support::{Folder, Ran};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// Renders before and after a compaction that moves every object that can move. Nothing on the stack refers to the
/// renderers, so nothing pins them.
const REDCARPET: &str = r#"
require "redcarpet"
class Plain < Redcarpet::Render::HTML; end
class Loud < Redcarpet::Render::HTML
  def paragraph(text)
    "<p>#{text.upcase}</p>"
  end
end
KEPT = []
def fill(count, renderer)
  count.times { KEPT << Redcarpet::Markdown.new(renderer.new) }
end
def rendered
  KEPT.map { |markdown| markdown.render("a *b*") }
end
# Holes for a compaction to fill.
def make_holes
  holes = Array.new(300_000) { Object.new }
  fill(200, ARGV[0] == "loud" ? Loud : Plain)
  holes = nil
  4.times { GC.start }
end
fill(200, ARGV[0] == "loud" ? Loud : Plain)
make_holes unless ARGV[1] == "verify"
before = rendered
if ARGV[1] == "runtime"
  # The runtime compacts before the first fork.
  require "socket"
  listening = TCPServer.new("127.0.0.1", 0)
  Process.wait(fork { exit!(0) })
  abort "not compacted" if CaratRuntime.report[:compactions].zero?
elsif ARGV[1] == "verify"
  options = RUBY_VERSION >= "3.2" ? { expand_heap: true } : { double_heap: true }
  GC.verify_compaction_references(toward: :empty, **options)
else
  GC.compact
end
# Other objects where the renderers were.
reused = Array.new(500_000) { Object.new }
after = begin
  rendered
rescue StandardError => e
  e.class.name
end
puts after == before ? "same" : "different: #{after.inspect[0, 60]}"
"#;

/// What it prints; the signal, if it ended by one. The roots see the /tmp of this system.
fn redcarpet(version: TestRuby, folder: &Path, renderer: &str, how: &str) -> String {
    let script = folder.join("renderers.rb");
    let output = version.command(None).arg(&script).args([renderer, how]).output().unwrap();
    match output.status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    }
}

/// The versions of Ruby and of redcarpet; skips the test where the gem is missing.
fn versions_of_redcarpet(version: TestRuby) -> String {
    let script = "require 'redcarpet'; print RUBY_VERSION, ' ', Redcarpet::VERSION";
    let output = version.command(None).args(["-e", script]).output().unwrap();
    if !output.status.success() {
        skip("no redcarpet there: run bin/setup, or make the root again with bin/roots");
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn breaks_with_redcarpet(version: TestRuby, expected: bool) {
    let versions = versions_of_redcarpet(version);
    let folder = tempfile::Builder::new().prefix("carat-root-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("renderers.rb"), REDCARPET).unwrap();
    for how in ["verify", "compact"] {
        assert_eq!(redcarpet(version, folder.path(), "plain", how), "same", "{versions}, {how}");
        let loud = redcarpet(version, folder.path(), "loud", how);
        // If this fails because the gem is fixed, the list has to say from which version on.
        assert_eq!(loud != "same", expected, "{versions}, {how}: {loud}");
    }
}

#[test]
fn a_renderer_of_redcarpet_survives_a_compaction_on_ruby_2_7_and_3_1() {
    require!(Roots("bullseye"), Roots("bookworm"));
    breaks_with_redcarpet(TestRuby::InRoot("bullseye"), false);
    breaks_with_redcarpet(TestRuby::InRoot("bookworm"), false);
}

#[test]
fn a_renderer_of_redcarpet_that_overrides_a_method_breaks_on_ruby_3_3() {
    require!(Roots("trixie"));
    breaks_with_redcarpet(TestRuby::InRoot("trixie"), true);
}

#[test]
fn the_list_says_for_the_ruby_in_path_what_redcarpet_does_there() {
    require!(Ruby, Redcarpet);
    let ruby = versions_of_redcarpet(TestRuby::OnPath);
    let minor: u32 = ruby.split('.').nth(1).unwrap().parse().unwrap();
    let is_listed = !ruby.starts_with("2.") && (minor >= 2 || !ruby.starts_with("3."));
    breaks_with_redcarpet(TestRuby::OnPath, is_listed);
    // What it hides is pinned, if it hides anything here.
    let ran = server(&["prepare_fork=full"], "require 'redcarpet'");
    ran.assert_code(0).assert_says("prepare_fork=full applied");
}

#[test]
fn renderers_of_redcarpet_are_pinned_so_that_the_runtime_can_compact_on_ruby_3_3() {
    require!(Roots("trixie"));
    let version = TestRuby::InRoot("trixie");
    versions_of_redcarpet(version);
    let folder = tempfile::Builder::new().prefix("carat-root-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("renderers.rb"), REDCARPET).unwrap();
    let script = ["renderers.rb", "loud", "runtime"];
    let pinned = run_on(version.command(None), folder.path(), "compact=before-fork", &script);
    assert_eq!(pinned, "same\n");
    let trusted = run_on(
        version.command(None),
        folder.path(),
        "compact=before-fork;trust_extensions=on",
        &script,
    );
    assert!(!trusted.contains("same"), "without pins it is a test of nothing: {trusted}");
}

#[test]
fn automatic_compaction_ends_before_a_listed_extension_is_loaded() {
    require!(Ruby);
    let folder = Folder::new("extensions");
    folder.write("semian.rb", "puts \"loading: #{GC.auto_compact}\"");
    let script = "def (Gem::Specification).find_all_by_name(name) = name == 'semian' ? [Gem::Specification.new('semian', '0.10.4')] : []\n\
                  puts GC.auto_compact\nrequire './semian'\nputs GC.auto_compact";
    let script = folder.write("server.rb", script).display().to_string();
    for (settings, expected) in [
        (&["compact=auto"][..], "true\nloading: false\nfalse\n"),
        (&["compact=auto", "trust_extensions=on"], "true\nloading: true\ntrue\n"),
    ] {
        let ran = folder.run(&[&["exec"], settings, &["--", "ruby", &script]].concat());
        ran.assert_code(0);
        assert_eq!(ran.out, expected, "{}", ran.talk);
        let said = ran.talk.contains("compact was not applied: semian 0.10.4 keeps objects");
        assert_eq!(said, settings.len() == 1, "{}", ran.talk);
    }
}

#[test]
fn automatic_compaction_that_has_ended_is_not_called_applied() {
    require!(Ruby);
    // As if the library were loaded: what counts is the name of the file.
    let loads = format!("{SEMIAN}\neval('1', binding, '/gems/semian.rb')");
    let ran = server(&["compact=auto"], &loads);
    ran.assert_code(0).assert_says("compact=auto NOT APPLIED: semian 0.10.4 keeps objects");
    assert!(!ran.talk.contains("applied: without"), "{}", ran.talk);
}

#[test]
fn automatic_compaction_begins_after_a_collection_that_is_under_way(version: TestRuby) {
    let folder = Folder::new("extensions");
    // Ruby's boot may leave one half done; which numbers of objects before that do so depends on the version.
    folder.write(
        "before.rb",
        "$kept = Array.new(Integer(ENV['N'])) { |n| 'a text that is in malloc ' * 3 + n.to_s }",
    );
    folder.write(
        "work.rb",
        "20.times do\n  (1..2000).map { |n| \"s#{n}\" * 3 }\n  GC.start\n\
           %w[a b].map { |n| [n].map { |x| x + 'z' } }\nend\nputs $kept.size",
    );
    for number in (0..200).step_by(10) {
        let mut ruby = version.command(None);
        ruby.env("N", number.to_string());
        let arguments = ["-r", "./before.rb", "work.rb"];
        let printed = run_on(ruby, &folder.path(""), "compact=auto", &arguments);
        assert!(printed.starts_with(&format!("{number}\n")), "{printed}");
    }
}

/// Makes an extension look loaded that no Debian package has.
const SEMIAN: &str = "Gem.loaded_specs['semian'] = Gem::Specification.new('semian', '0.10.4')";

/// A server that has bound its socket, then forks.
fn server(settings: &[&str], first: &str) -> Ran {
    let folder = Folder::new("extensions");
    let script = format!(
        "{first}\nrequire 'socket'\nserver = TCPServer.new('127.0.0.1', 0)\npid = fork {{ sleep }}\nsleep 6\n\
         Process.kill(:KILL, pid)\nProcess.wait(pid)"
    );
    let script = folder.write("server.rb", &script).display().to_string();
    let mut arguments = vec!["exec", "--verify"];
    arguments.extend(settings);
    arguments.extend(["--", "ruby", &script]);
    folder.run(&arguments)
}

#[test]
fn what_is_left_out_because_of_an_extension_is_said_with_its_version_and_the_way_to_override() {
    require!(Ruby);
    let partly =
        "prepare_fork=full partly applied: without compaction, because semian 0.10.4 keeps objects";
    server(&["prepare_fork=full"], SEMIAN)
        .assert_code(0)
        .assert_says(&format!("carat verify: {partly}"))
        .assert_says("(Shopify/semian#275)")
        .assert_says("`trust_extensions=on` compacts all the same");
    let refused = server(&["compact=before-fork"], SEMIAN);
    refused.assert_code(0).assert_says("compact=before-fork NOT APPLIED: semian 0.10.4");
    for more in ["trust_extensions=on", "compact=off"] {
        let whole = server(&["prepare_fork=full", more], SEMIAN);
        whole.assert_code(0).assert_says("prepare_fork=full applied");
        assert!(!whole.talk.contains("partly"), "{}", whole.talk);
    }
}

#[test]
fn an_extension_that_was_loaded_without_its_gem_is_found_too() {
    require!(Ruby);
    let script = "Gem::Specification.new('semian', '0.10.4')\n$LOADED_FEATURES << '/x/semian/semian.so'\n\
                  def (Gem::Specification).find_all_by_name(*) = [Gem::Specification.new('semian', '0.10.4')]";
    server(&["prepare_fork=full"], script).assert_code(0).assert_says("because semian 0.10.4");
}

#[test]
fn a_trial_whose_setting_was_partly_applied_says_so_on_terminal_page_and_in_json() {
    require!(Ruby);
    let folder = Folder::new("extensions");
    let script = format!(
        "{SEMIAN}\nrequire 'webrick'\n\
         server = WEBrick::HTTPServer.new(Port: ENV['PORT'], BindAddress: '127.0.0.1', Logger: WEBrick::Log.new(File::NULL), AccessLog: [])\n\
         server.mount_proc('/') {{ |_, answer| answer.body = 'ok' }}\n\
         pid = fork {{ sleep }}\ntrap('TERM') {{ server.shutdown }}\nserver.start\nProcess.kill(:KILL, pid)"
    );
    folder.write("server.rb", &script);
    folder.write(
        "partly.toml",
        "name = \"partly\"\n[server]\ncommand = [\"ruby\", \"server.rb\"]\nenv = { PORT = \"{port}\" }\n\
         ready = { tcp = true }\n[load.http]\nconnections = 1\nrequests = 20\n\
         [[variant]]\nname = \"default\"\n[[variant]]\nname = \"prepared\"\n\
         settings = { prepare_fork = \"full\" }\n[trials]\nmax = 1\nwarmup_block = false\n",
    );
    let ran = folder.run(&["compare", "partly.toml"]);
    let said = "prepare_fork=full partly applied: without compaction, because semian 0.10.4";
    ran.assert_code(3).assert_says(said);
    let page = fs::read_to_string(folder.path("partly.html")).unwrap();
    assert!(page.contains(said), "the page lacks it");
    let json = folder.run(&["report", "partly.carat", "--json"]).out;
    assert!(json.contains(said), "{json}");
    folder.assert_nothing_left();
}
