//! The setting `calloc_arena` on real Rubies with jemalloc: what it saves, and that it changes nothing else.

use crate::needs::TestRuby;
use crate::runtime::run_on;
use crate::support::Folder;
use carat_settings::find_allocator;
use std::fs;

/// What a script prints under `settings` with the jemalloc of its system. The roots see the /tmp of this system, so that is where
/// it must be.
fn printed(version: TestRuby, settings: &str, script: &str) -> String {
    let folder = tempfile::Builder::new().prefix("carat-calloc-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("script.rb"), format!("require 'socket'\n{script}")).unwrap();
    let jemalloc = find_allocator(&version.root(), "jemalloc").unwrap();
    run_on(version.command(Some(&jemalloc)), folder.path(), settings, &["script.rb"])
}

/// Prints what a full GC in a child copies, and the report: methods that never run, among blocks of malloc of the sizes
/// that their call sites have.
const METHODS: &str = "
def private_bytes
  lines = File.readlines('/proc/self/smaps_rollup').grep(/^Private_/)
  lines.sum { |line| line.split[1].to_i * 1024 }
end
kept = []
4_000.times do |number|
  calls = (0..(4 + number % 8)).map { |call| \"one#{call}(two)\" }.join(';')
  Object.class_eval(\"def method#{number}; #{calls}; end\")
  12.times { |size| kept << (String.new << 'x' * 30 << 'y' * (30 + 15 * size)) << String.new(capacity: 65 + 11 * size) }
end
server = TCPServer.new('127.0.0.1', 0)
reader, writer = IO.pipe
pid = fork do
  2.times { private_bytes }
  before = private_bytes
  GC.start
  writer.puts private_bytes - before
  exit!(0)
end
Process.wait(pid)
puts [reader.gets.to_i, *CaratRuntime.report.values_at(:calloc_bytes, :applied, :refused)].join(' ')
";

/// Copied bytes, bytes of the arena, applied and refused settings.
fn full_gc_in_a_child(version: TestRuby, settings: &str) -> [u64; 4] {
    let printed = printed(version, settings, METHODS);
    let numbers: Vec<u64> = printed.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{version:?}: {printed}"))
}

#[test]
fn a_full_gc_in_a_child_copies_fewer_pages(version: TestRuby) {
    let [copied, none, ..] = full_gc_in_a_child(version, "prepare_fork=full");
    let [fewer, apart, applied, refused] =
        full_gc_in_a_child(version, "calloc_arena=on;prepare_fork=full");
    assert_eq!((none, applied, refused), (0, 0b11, 0), "{version:?}");
    assert!((1 << 20..64 << 20).contains(&apart), "{version:?}: {apart}");
    // Ruby 3.3 writes to call sites, 3.1 to bitmaps among other blocks.
    let writes_to_calloc = !matches!(version, TestRuby::InRoot("bullseye" | "ruby34"));
    if writes_to_calloc {
        assert!(fewer < copied * 7 / 10, "{version:?}: {fewer} instead of {copied}");
    }
}

#[test]
fn threads_that_allocate_during_the_first_fork_lose_nothing(version: TestRuby) {
    let script = "
done = false
made = Array.new(3) { Thread.new { hashes = 0; (10.times { |n| Hash.new(n).store(n, [n] * 20) }; hashes += 1) until done; hashes } }
server = TCPServer.new('127.0.0.1', 0)
statuses = Array.new(20) do
  Process.wait2(fork { 1_000.times { |n| Object.class_eval(\"def late#{n}; #{n}; end\") }; GC.start; exit!(late7) }).last.exitstatus
end
done = true
p [statuses.uniq, made.map(&:value).all?(&:positive?), CaratRuntime.report[:calloc_bytes].positive?]
";
    assert_eq!(printed(version, "calloc_arena=on", script), "[[7], true, true]\n", "{version:?}");
}

#[test]
fn a_helper_that_is_forked_while_the_server_boots_does_not_end_it() {
    require!(Ruby, Jemalloc);
    let script = "
in_helper = IO.popen('-') { |pipe| pipe ? pipe.read : print(CaratRuntime.report[:calloc_bytes].positive?) }
before = CaratRuntime.report[:calloc_bytes]
server = TCPServer.new('127.0.0.1', 0)
2.times { Process.wait(fork { exit!(0) }) }
after = CaratRuntime.report[:calloc_bytes]
Process.wait(fork { exit!(0) })
puts [in_helper, before, after.positive?, CaratRuntime.report[:calloc_bytes] == after].inspect
";
    let printed = printed(TestRuby::OnPath, "calloc_arena=on", script);
    assert_eq!(printed, "[\"true\", 0, true, true]\n");
}

#[test]
fn without_jemalloc_the_server_runs_as_without_and_one_line_says_why() {
    require!(Ruby);
    let folder = Folder::new("calloc");
    let script = folder.write("script.rb", "p Array.new(3) { {} }").display().to_string();
    let ran = folder.run(&["exec", "calloc_arena=on", "--", "ruby", &script]);
    ran.assert_code(0).assert_says("`calloc_arena` is a setting of jemalloc's malloc");
    ran.assert_says("calloc_arena was not applied: malloc is not jemalloc");
    assert_eq!(ran.out, "[{}, {}, {}]\n");
}
