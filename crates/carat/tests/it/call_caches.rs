//! The setting `fill_call_caches` on real Rubies: what a full GC in a child copies, and that every call does what it did.

use crate::needs::TestRuby;
use crate::runtime::run_on;
use std::fs;

/// What a script prints under `settings`, and its stderr after it. The roots see the /tmp of this system.
fn printed(version: TestRuby, settings: &str, script: &str) -> String {
    let folder = tempfile::Builder::new().prefix("carat-calls-").tempdir_in("/tmp").unwrap();
    fs::write(folder.path().join("script.rb"), format!("require 'socket'\n{script}")).unwrap();
    run_on(version.command(None), folder.path(), settings, &["script.rb"])
}

/// Prints the bytes that a full GC copies in a child, and the report: methods that never run, among other blocks of malloc.
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
puts [reader.gets.to_i, *CaratRuntime.report.values_at(:filled_call_caches, :applied, :needless, :refused)].join(' ')
";

/// Copied bytes, filled call sites, settings that are applied, for which there is nothing to do, and that are refused.
fn full_gc_in_a_child(version: TestRuby, settings: &str) -> [u64; 5] {
    let printed = printed(version, settings, METHODS);
    let numbers: Vec<u64> = printed.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{version:?}: {printed}"))
}

#[test]
fn a_full_gc_in_a_child_copies_no_page_of_call_sites(version: TestRuby) {
    let [copied, ..] = full_gc_in_a_child(version, "prepare_fork=full");
    let [fewer, filled, applied, needless, refused] =
        full_gc_in_a_child(version, "prepare_fork=full;fill_call_caches=on");
    let is_needed = version == TestRuby::InRoot("trixie");
    let expected = if is_needed { (0b11, 0, 0) } else { (0b01, 0b10, 0) };
    assert_eq!((applied, needless, refused), expected, "{version:?}");
    if is_needed {
        // At least the 40,000 calls of the methods above.
        assert!(filled > 40_000, "{version:?}: {filled}");
        assert!(fewer < copied / 3, "{version:?}: {fewer} instead of {copied}");
    } else {
        assert_eq!(filled, 0, "{version:?}");
    }
}

/// Calls of every kind from call sites that have not been reached before the fork, in a child and in the parent; also after
/// methods have been redefined, after a compaction and with YJIT. Prints the results, which no setting may change.
const CALLS: &str = "
module Loud
  refine(String) { def loud; upcase; end }
end
using Loud
class Base
  def greet(name = 'x', *rest, key: 1, **more, &block) = [name, rest, key, more, block&.call(name)]
  def plain = :base
  def method_missing(name, *arguments) = name.end_with?('_later') ? [name, arguments] : super
  def respond_to_missing?(name, all = false) = name.end_with?('_later') || super
end
module Mixed
  def plain = [:mixed, super]
end
class Derived < Base
  include Mixed
  attr_accessor :field
  Pair = Struct.new(:left, :right)
  define_method(:made) { |value| [value, plain] }
  def plain = [:derived, super]
  def greet(*) = super
  def each = block_given? ? (yield 1; yield 2) : to_enum
  def all
    self.field = 3
    pair = Pair.new(1, 2)
    pair.left += 5
    [greet('a', 2, key: 3, other: 4) { |name| name * 2 }, plain, made(7), field, pair.to_a, some_later(1),
     each.to_a, [3, 1, 2].sort.map(&:to_s).sum(''), 'x'.loud, nil&.size, [1, 2] == [1, 2], 1 + 2 * 3, 'a' + 'b', !plain,
     %w[b a].min, { a: 1 }[:a], (begin; nothing_here; rescue NameError => e; e.name; end),
     public_send(:plain), method(:plain).call, instance_exec(4) { |n| n + field }, \"#{plain}#{:sym}#{4.5}\", Object.new.nil?,
     [1, [2, 3]].flatten, 5.clamp(1, 3), -> (n) { n ** 2 }.(4), (1..3).each_slice(2).to_a, 'abc'[1], 'abc' =~ /c/, 7.0 / 2]
  end
end
at_once = Derived.new
server = TCPServer.new('127.0.0.1', 0)
reader, writer = IO.pipe
child = fork do
  GC.start
  writer.puts at_once.all.inspect, at_once.all.inspect
  exit!(0)
end
Process.wait(child)
writer.close
puts reader.read
GC.compact if GC.respond_to?(:compact)
puts at_once.all.inspect
class Base
  def plain = :changed
end
class Integer
  alias old_plus +
  def +(other) = old_plus(other)
end
puts at_once.all.inspect
RubyVM::YJIT.enable if defined?(RubyVM::YJIT) && RubyVM::YJIT.respond_to?(:enable)
100.times { at_once.all }
GC.stress = true
puts at_once.all.inspect
GC.stress = false
GC.verify_internal_consistency
p ObjectSpace.each_object(Class).count.positive?, CaratRuntime.report[:refused]
";

#[test]
fn every_kind_of_call_does_what_it_did(version: TestRuby) {
    if version == TestRuby::InRoot("bullseye") {
        // Ruby 2.7 does not have the script's syntax, and the setting does nothing there.
        return;
    }
    let without = printed(version, "prepare_fork=full", CALLS);
    assert!(without.ends_with("true\n0\n"), "{version:?}: {without}");
    assert_eq!(
        printed(version, "prepare_fork=full;fill_call_caches=on", CALLS),
        without,
        "{version:?}"
    );
    assert_eq!(printed(version, "fill_call_caches=on", CALLS), without, "{version:?}");
}

#[test]
fn where_call_sites_are_not_as_expected_nothing_is_written_and_one_line_says_so() {
    require!(Roots("trixie"));
    let script = "
wrapper = RubyVM::InstructionSequence.of(CaratRuntime.method(:start))
CaratRuntime.learn_call_sites(wrapper, 3)
server = TCPServer.new('127.0.0.1', 0)
Process.wait(fork { exit!(0) })
p CaratRuntime.report[:filled_call_caches]
";
    let printed = printed(TestRuby::InRoot("trixie"), "fill_call_caches=on", script);
    let reason =
        "carat: fill_call_caches was not applied: this Ruby keeps its call sites in an unknown way";
    assert_eq!(printed, format!("0\n{reason}\n"));
}
