//! What the runtime does where Ruby's heap differs: one heap for slots of all sizes up to 3.1, and from 3.4 on empty pages
//! that `Process.warmup` leaves.

use crate::needs::TestRuby;
use crate::runtime::{folder_for_roots, run_on};
use std::ffi::OsStr;
use std::fs;

/// Roots with Ruby 2.7 and 3.1.
const ONE_HEAP: [&str; 2] = ["bullseye", "bookworm"];

/// No variables.
const NONE: [(&str, &str); 0] = [];

#[test]
fn a_worker_whose_parent_left_few_free_slots_does_not_collect_fully_all_the_time() {
    require!(Roots("bullseye"), Roots("bookworm"));
    // More free slots than the lower ratio, so that Ruby does not let the heap grow, and far fewer than a worker needs.
    let script = "
require 'socket'
kept = Array.new(700_000) { +'x' }
server = TCPServer.new('127.0.0.1', 0)
GC.start
(GC.stat(:heap_free_slots) - 8_000).times { kept << +'y' }
reader, writer = IO.pipe
Process.wait(fork do
  GC.start
  free = GC.stat(:heap_free_slots)
  writer.puts [free > 75_000, GC.enable].inspect
end)
puts GC.enable, reader.gets
";
    let variables = [
        ("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", "0.004"),
        ("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO", "0.01"),
        ("RUBY_GC_HEAP_INIT_SLOTS", "80000"),
    ];
    let expected = "false\n[true, false]\n";
    assert_prints(&ONE_HEAP, script, "worker_growth=40000", &variables, expected);
}

#[test]
fn a_worker_whose_own_objects_use_up_its_free_slots_gets_new_ones() {
    require!(Roots("bullseye"), Roots("bookworm"));
    let script = "
require 'socket'
kept = Array.new(400_000) { +'x' }
server = TCPServer.new('127.0.0.1', 0)
reader, writer = IO.pipe
Process.wait(fork do
  own = Array.new(150_000) { +'y' }
  4.times { GC.start }
  before = GC.count
  200_000.times { +'z' }
  writer.puts [GC.count - before < 10, own.size].inspect
end)
puts reader.gets
";
    assert_prints(&ONE_HEAP, script, "worker_growth=40000", &NONE, "[true, 150000]\n");
}

#[test]
fn requests_whose_objects_grow_old_in_slots_of_one_size_end_in_half_as_many_full_collections() {
    require!(Roots("trixie"));
    // A request has most of the slots that the first growth of 24 pages has, and minor collections make its objects old.
    let script = "
require 'socket'
text = '.' * 100
kept = Array.new(60_000) { text.dup }
others = Array.new(400_000) { Object.new }
server = TCPServer.new('127.0.0.1', 0)
reader, writer = IO.pipe
Process.wait(fork do
  before = GC.stat(:major_gc_count)
  60.times do
    held = Array.new(9_000) { text.dup }
    4.times { GC.start(full_mark: false) }
  end
  full = GC.stat(:major_gc_count) - before
  writer.puts full.between?(20, 40) ? 'half' : full
end)
puts reader.gets
";
    let settings = "worker_growth=40000;prepare_fork=full";
    assert_prints(&["trixie"], script, settings, &NONE, "half\n");
}

#[test]
fn pages_that_compaction_has_emptied_are_given_back_before_the_fork() {
    require!(Roots("bullseye"), Roots("bookworm"));
    let script = "
require 'socket'
kept = Array.new(400_000) { +'x' }
GC.disable
1_000_000.times { |number| string = +'y'; kept << string if number % 5 == 0 }
GC.enable
server = TCPServer.new('127.0.0.1', 0)
Process.wait(fork { exit!(0) })
free, all = GC.stat.values_at(:heap_free_slots, :heap_available_slots)
puts free < all * 0.12
";
    let variables = [
        ("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", "0.004"),
        ("RUBY_GC_HEAP_FREE_SLOTS_GOAL_RATIO", "0.05"),
        ("RUBY_GC_HEAP_FREE_SLOTS_MAX_RATIO", "0.1"),
    ];
    assert_prints(&ONE_HEAP, script, "prepare_fork=full", &variables, "true\n");
}

#[test]
fn workers_neither_inherit_the_pages_that_warming_up_empties_nor_may_allocate_them_again() {
    require!(Roots("ruby34"));
    let script = "
require 'socket'
kept = Array.new(400_000) { Object.new }
GC.disable
1_000_000.times { |number| object = Object.new; kept << object if number % 5 == 0 }
GC.enable
server = TCPServer.new('127.0.0.1', 0)
reader, writer = IO.pipe
Process.wait(fork { writer.puts GC.stat(:heap_allocatable_slots) < 110_000 })
free, all = GC.stat.values_at(:heap_free_slots, :heap_available_slots)
puts free < all * 0.15, reader.gets
";
    let settings = "worker_growth=40000;prepare_fork=full";
    assert_prints(&["ruby34"], script, settings, &NONE, "true\ntrue\n");
}

#[test]
fn limits_that_a_user_has_set_are_known_after_their_variables_were_removed_from_the_environment() {
    require!(Roots("bullseye"), Roots("bookworm"), Roots("trixie"), Roots("ruby34"));
    let script = "
require 'socket'
kept = Array.new(400_000) { +'x' }
server = TCPServer.new('127.0.0.1', 0)
Process.wait(fork { exit!(0) })
puts CaratRuntime.report[:refused], ENV.key?('RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO')
";
    let variables = [
        ("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", "0.3"),
        ("CARAT_VARIABLES", "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO"),
    ];
    let roots = ["bullseye", "bookworm", "trixie", "ruby34"];
    assert_prints(
        &roots,
        script,
        "worker_growth=40000;scrub=settings,options",
        &variables,
        "0\nfalse\n",
    );
}

/// Runs the script on the Ruby of each root.
fn assert_prints(
    roots: &[&'static str],
    script: &str,
    settings: &str,
    variables: &[(impl AsRef<OsStr>, impl AsRef<OsStr>)],
    expected: &str,
) {
    for &root in roots {
        let folder = folder_for_roots();
        fs::write(folder.path().join("script.rb"), script).unwrap();
        let mut ruby = TestRuby::InRoot(root).command(None);
        ruby.envs(variables.iter().map(|(name, value)| (name, value)));
        let printed = run_on(ruby, folder.path(), settings, &["script.rb"]);
        assert_eq!(printed, expected, "{root}");
    }
}
