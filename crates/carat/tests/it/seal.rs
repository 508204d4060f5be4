//! Sealing on real Rubies: filled slots stay filled, and the collections of a child do not write to them.

use crate::needs::TestRuby;
use crate::runtime::run_on;
use std::fs;

/// Without compaction the holes stay where they are.
const SETTINGS: &str = "prepare_fork=full;compact=off;seal=on";

/// What a script prints under [`SETTINGS`]. The roots see the /tmp of this system, so that is where it must be.
fn printed(version: TestRuby, script: &str) -> String {
    let folder = tempfile::Builder::new().prefix("carat-seal-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("script.rb"), format!("require 'socket'\n{script}")).unwrap();
    run_on(version.command(None), folder.path(), SETTINGS, &["script.rb"])
}

#[test]
fn slots_of_every_size_stay_filled_after_the_next_collection(version: TestRuby) {
    let script = "
def slots
  return GC.stat_heap.each_value.sum { |heap| heap[:heap_eden_slots] } if GC.respond_to?(:stat_heap)
  GC.stat(:heap_eden_pages) * GC::INTERNAL_CONSTANTS[:HEAP_PAGE_OBJ_LIMIT]
end
def holes
  GC.start
  slots - GC.stat(:heap_live_slots)
end
server = TCPServer.new('127.0.0.1', 0)
kept = Array.new(100_000) { |i| 'h' * (20 + i % 600) }
kept.each_index { |i| kept[i] = nil if i.odd? }
before = holes
Process.wait(fork { exit!(0) })
puts \"#{before} #{holes}\"
";
    let printed = printed(version, script);
    let counts = printed.trim().split_once(' ').expect(&printed);
    let [before, after]: [u64; 2] = [counts.0, counts.1].map(|count| count.parse().unwrap());
    // Every second string is gone. A page of each size may have been added.
    assert!(before >= 40_000 && after < before / 5, "{version:?}: {printed}");
}

#[test]
fn collections_of_a_child_do_not_copy_the_pages_of_filled_slots(version: TestRuby) {
    let script = "
def private_bytes
  lines = File.readlines('/proc/self/smaps_rollup').grep(/^Private_/)
  lines.sum { |line| line.split[1].to_i * 1024 }
end
server = TCPServer.new('127.0.0.1', 0)
kept = Array.new(400_000) { Object.new }
kept.each_index { |i| kept[i] = nil if i.odd? }
reader, writer = IO.pipe
pid = fork do
  private_bytes
  before = private_bytes
  4.times { GC.start(full_mark: false) }
  writer.puts private_bytes - before
  exit!(0)
end
Process.wait(pid)
puts reader.gets
";
    let printed = printed(version, script);
    let copied: i64 = printed.trim().parse().expect(&printed);
    // The objects and what fills the holes between them take 16 MB, the bitmaps of their pages up to a quarter of that.
    assert!(copied < 8_000_000, "{version:?}: {copied} bytes");
}
