# frozen_string_literal: true

# Repeats one small operation a million times and reports its cost: `ruby extend.rb extend|include|bare|leak [COUNT]`.
require 'json'
require_relative 'leak'

# A method that is added to a Hash, per object or once to the class.
module BetterHash
  def better?
    true
  end
end

# Runs one mode and prints its figures as one line of JSON.
class Script
  MODES = {
    'bare' => ->(_) {},
    'include' => ->(hash) { hash.better? },
    'extend' => ->(hash) { hash.extend(BetterHash).better? },
    'leak' => ->(_) { Leak.once }
  }.freeze

  def initialize(mode, count)
    @mode = mode
    @work = MODES.fetch(mode) { abort "unknown mode #{mode}: use one of #{MODES.keys.join(', ')}" }
    @count = count
    Hash.include(BetterHash) if mode == 'include'
  end

  def run
    before = figures
    @count.times { @work.call({}) }
    after = figures
    puts JSON.generate(report(before, after))
  end

  private

  def figures
    { gc: GC.count, seconds: Process.clock_gettime(Process::CLOCK_MONOTONIC),
      cpu: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID), rss: resident_bytes }
  end

  def resident_bytes
    File.read('/proc/self/status')[/^VmRSS:\s+(\d+) kB/, 1].to_i * 1024
  end

  def report(before, after)
    grown = after[:rss] - before[:rss]
    { mode: @mode, count: @count, ruby: RUBY_VERSION, gc_runs: after[:gc] - before[:gc],
      seconds: (after[:seconds] - before[:seconds]).round(3), cpu_seconds: (after[:cpu] - before[:cpu]).round(3),
      rss_bytes: after[:rss], grown_bytes: grown, bytes_each: (grown.to_f / @count).round(2) }
  end
end

Script.new(ARGV.fetch(0, 'extend'), Integer(ARGV.fetch(1, '1000000'))).run
