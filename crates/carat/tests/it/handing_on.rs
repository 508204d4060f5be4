//! Which programs get the settings of the process that starts them: a Ruby that a launcher starts, and nothing else.

use crate::needs::TestRuby;
use crate::runtime::{folder_for_roots, run_on};
use std::fs;

/// Says what it was started with, and what is left of it in the environment.
const CHILD: &str = r#"
if defined?(CaratRuntime)
  limit = CaratRuntime.setting("scrub").removed["RUBY_GC_MALLOC_LIMIT"]
  left = ENV.keys.grep(/CARAT_(?!TEST|REQUIRE_ALL)|RUBYOPT|LD_PRELOAD|RUBY_GC|MALLOC/)
  puts ["settings", !CaratRuntime.setting("trim").nil?, limit, ENV["X"], left].inspect
else
  puts "nothing"
end
"#;
const SCRIPT_OF_A_SHELL: &str = "#!/bin/sh\n# A comment\nset -e\nexec \"$@\"\n";

/// Starts programs in every way and prints what each says. With an argument it listens, as a server does.
const LAUNCHER: &str = r##"
require "open3"
require "socket"
server = TCPServer.new("127.0.0.1", 0) if ARGV.first
$0 = ARGV[1] if ARGV[1]
$stdout.sync = true
CARATS = /^(?:CARAT_(?!TEST|REQUIRE_ALL)|RUBYOPT|LD_PRELOAD|RUBY_GC|MALLOC)\w*|^settings.*|^nothing|^\[.*/
def show(what)
  reader, writer = IO.pipe
  yield writer
  writer.close
  puts "#{what}: #{reader.read.scan(CARATS).sort.join(" ")}"
end
show("fork, exec env") { |w| Process.wait(fork { exec("env", out: w) }) }
show("spawn env") { |w| Process.wait(spawn("env", out: w)) }
show("system env") { |w| system("env", out: w) }
show("shell env") { |w| system("cd . && env; echo ruby", out: w) }
show("backtick env") { |w| w.write(`env`) }
show("own environment") { |w| system({ "PATH" => ENV["PATH"] }, "ruby", "child.rb", out: w, unsetenv_others: true) }
show("fork, exec") { |w| Process.wait(fork { exec("ruby", "child.rb", out: w) }) }
show("fork, exec, hashes") { |w| Process.wait(fork { exec({ "X" => "y" }, "ruby child.rb", { out: w }) }) }
show("fork, exec, redirects") do |w|
  Process.wait(fork { Kernel.exec(["ruby", "name"], "child.rb", w.fileno => w.fileno, 1 => w, :close_others => true) })
end
show("spawn") { |w| Process.wait(spawn("ruby", "child.rb", out: w)) }
show("Process.spawn") { |w| Process.wait(Process.spawn({ "X" => "y" }, "ruby", "child.rb", 1 => w, :in => "/dev/null", [:err] => :out)) }
show("Process.spawn, splat") { |w| options = { out: w }; Process.wait(Process.spawn("ruby child.rb", **options)) }
show("system, shell") { |w| system("cd . && X=y exec ruby child.rb", out: w) }
show("system, exception") { |w| system("ruby", "child.rb", out: w, exception: true) }
show("env") { |w| system("env", "X=y", "ruby", "child.rb", out: w) }
show("script") { |w| system("./script.sh", "ruby", "child.rb", out: w) }
show("Open3") { |w| w.write(Open3.capture2e("ruby", "child.rb").first) }
[-> { exec("/nowhere") }, -> { spawn }, -> { system(3) }, -> { exec("a\0b") }].each do |call|
  call.call
rescue SystemCallError, ArgumentError, TypeError => e
  puts e.class
end
puts ENV.keys.grep(CARATS).inspect
"##;

/// What the launcher prints for each way to start a Ruby.
const RUBIES: [(&str, &str); 11] = [
    ("fork, exec", "nil"),
    ("fork, exec, hashes", "\"y\""),
    ("fork, exec, redirects", "nil"),
    ("spawn", "nil"),
    ("Process.spawn", "\"y\""),
    ("Process.spawn, splat", "nil"),
    ("system, shell", "\"y\""),
    ("system, exception", "nil"),
    ("env", "\"y\""),
    ("script", "nil"),
    ("Open3", "nil"),
];

fn expected(ruby: impl Fn(&str) -> String) -> String {
    let others = ["fork, exec env", "spawn env", "system env", "shell env", "backtick env"];
    let mut lines: Vec<String> = others.iter().map(|what| format!("{what}: ")).collect();
    lines.push("own environment: nothing".into());
    lines.extend(RUBIES.iter().map(|(what, x)| format!("{what}: {}", ruby(x))));
    lines.extend(
        ["Errno::ENOENT", "ArgumentError", "TypeError", "ArgumentError", "[]"].map(String::from),
    );
    lines.join("\n") + "\n"
}

fn printed(version: TestRuby, arguments: &[&str]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder_for_roots();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("child.rb"), CHILD).unwrap();
    fs::write(path("script.sh"), SCRIPT_OF_A_SHELL).unwrap();
    fs::set_permissions(path("script.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path("launcher.rb"), LAUNCHER).unwrap();
    let mut ruby = version.command(None);
    ruby.env("CARAT_VARIABLES", "RUBY_GC_MALLOC_LIMIT,MALLOC_TOP_PAD_")
        .env("RUBY_GC_MALLOC_LIMIT", "8388608")
        .env("MALLOC_TOP_PAD_", "65536");
    let arguments = [&["launcher.rb"], arguments].concat();
    run_on(ruby, folder.path(), "trim=full-gc;scrub=settings,options", &arguments)
}

#[test]
fn a_launcher_hands_its_settings_on_to_the_rubies_that_it_starts_and_to_nothing_else(
    version: TestRuby,
) {
    let settings = |x: &str| format!("[\"settings\", true, \"8388608\", {x}, []]");
    assert_eq!(printed(version, &[]), expected(settings));
}

#[test]
fn a_known_launcher_hands_its_settings_on_although_it_listens() {
    require!(Ruby);
    let settings = |x: &str| format!("[\"settings\", true, \"8388608\", {x}, []]");
    for title in ["spring server | app | started 3 secs ago", "/usr/bin/god"] {
        assert_eq!(printed(TestRuby::OnPath, &["listen", title]), expected(settings), "{title}");
    }
}

#[test]
fn a_server_that_listens_hands_its_settings_on_to_nothing_that_it_starts(version: TestRuby) {
    assert_eq!(printed(version, &["listen"]), expected(|_| "nothing".into()));
}
