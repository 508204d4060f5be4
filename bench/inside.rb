# frozen_string_literal: true

# The reader from outside against what Ruby and malloc say inside, on every Ruby that is here; its cost; and what the process
# that is read notices of it. `bin/roots` makes the Rubies; a Ruby that is not here has no row.

require 'json'
require 'open3'
require 'rexml/document'
require 'tempfile'
require_relative 'median'

TARGET = File.expand_path('../target/release/examples', __dir__)
PROGRAM = File.read(File.expand_path('../crates/carat/tests/it/data/outside.rb', __dir__))
ROOTS = File.expand_path('../bin/roots', __dir__)
RUBIES = { 'in PATH' => nil, '2.7' => 'bullseye', '3.1' => 'bookworm', '3.3' => 'trixie', '3.4' => 'ruby34' }.freeze
# Objects of the program, so that reading takes long enough to be measured.
SIZE = ENV.fetch('N', '60000')
PASSES = Integer(ENV.fetch('PASSES', '7'))
LATENCY = Integer(ENV.fetch('LATENCY_SECONDS', '5'))
ROUNDS = Integer(ENV.fetch('ROUNDS', '7'))

# A running Ruby that evaluates lines.
class Inside
  attr_reader :pid

  def initialize(root)
    command = root ? [ROOTS, '--run', root, '--', 'env', "N=#{SIZE}", 'ruby'] : ['env', "N=#{SIZE}", 'ruby']
    @stdin, @stdout, @waiter = Open3.popen2(*command, '-e', PROGRAM)
    @pid = Integer(@stdout.gets || raise("no Ruby in #{root}"))
  end

  def eval(line)
    @stdin.puts(line)
    @stdout.gets&.chomp || raise("Ruby ended at #{line}")
  end

  def ask(line)
    JSON.parse(eval(line))
  end

  def stop
    @stdin.close
    Process.kill(:KILL, @pid)
  rescue Errno::ESRCH
    nil
  ensure
    @waiter.value
  end
end

def census(pid, *options)
  output, error, status = Open3.capture3("#{TARGET}/census", pid.to_s, *options)
  status.success? ? JSON.parse(output) : raise(error.lines.last.to_s.strip)
end

# What malloc_info(3) says inside: bytes in use and system bytes of the main arena; `nil` without Fiddle.
def malloc_inside(ruby)
  return unless ruby.eval("begin; require 'fiddle'; 1; rescue LoadError; 0; end") == '1'

  Tempfile.create('malloc') do |file|
    ruby.eval("$c = Fiddle.dlopen(nil); $f = ->(n, a, r) { Fiddle::Function.new($c[n], a, r) }; 1")
    ruby.eval("$open = $f['fopen', [Fiddle::TYPE_VOIDP] * 2, Fiddle::TYPE_VOIDP]; $close = $f['fclose', [Fiddle::TYPE_VOIDP], 4]; " \
              "$info = $f['malloc_info', [4, Fiddle::TYPE_VOIDP], 4]; $trim = $f['malloc_trim', [Fiddle::TYPE_SIZE_T], 4]; 1")
    ruby.eval("$to = -> { s = $open.call(#{file.path.dump}, 'w'); $info.call(0, s); $close.call(s); 1 }; $to.call")
    yield
    ruby.eval('$to.call')
    arena = REXML::Document.new(file.read).elements['malloc/heap']
    system = Integer(arena.elements["system[@type='current']"].attributes['size'])
    free = %w[fast rest].sum { |type| Integer(arena.elements["total[@type='#{type}']"].attributes['size']) }
    { in_use: system - free, system: system }
  end
end

def anonymous(pid)
  File.read("/proc/#{pid}/smaps_rollup")[/^Rss: +(\d+)/, 1].to_i * 1024
end

# What `malloc_trim` returns, and what was predicted.
def trim(ruby)
  predicted = census(ruby.pid).fetch('malloc')&.fetch('arenas')&.sum { |arena| arena['trimmable_free_bytes'] + arena['trimmable_top_bytes'] }
  return unless predicted

  before = anonymous(ruby.pid)
  ruby.eval('$trim.call(0)')
  [predicted, before - anonymous(ruby.pid)]
end

def percent(outside, inside)
  format('%+.2f %%', (outside - inside) * 100.0 / inside)
end

def equal_classes(outside, inside)
  counts = outside.to_h { |count| [count['name'], count['objects']] }
  inside.count { |name, count| (counts.fetch(name, 0) - count).abs <= [3, count / 100].max }
end

def mb(bytes)
  format('%.1f MB', bytes / 1e6)
end

# One row of the table of accuracy.
def accuracy(ruby)
  seen = census(ruby.pid)
  slots = ruby.ask('Truth.slots')
  classes = ruby.ask('Truth.classes')
  heap = seen.fetch('heap')
  outside = nil
  inside = malloc_inside(ruby) { outside = census(ruby.pid).fetch('malloc') }
  main = outside&.dig('arenas', 0)
  used = main && %w[in_use thread_cached].sum { |part| main[part]['bytes'] }
  trimmed = inside && trim(ruby)
  [seen['ruby'], heap['slots'], heap['slots'] - slots['count']['TOTAL'], heap['free_slots'] - slots['count']['FREE'],
   "#{equal_classes(seen['classes'], classes)} of #{classes.size}",
   used && inside ? percent(used, inside[:in_use]) : 'unknown',
   trimmed ? "#{mb(trimmed[0])}, returned #{mb(trimmed[1])}" : 'unknown']
end

# One row of the table of costs.
def cost(ruby)
  without, with = [[], ['--owners']].map { |options| Array.new(PASSES) { census(ruby.pid, *options).fetch('cost') } }
  per_100 = ->(passes, key) { median(passes.map { |pass| pass[key] / pass['present_bytes'] * 1e8 }) }
  [mb(without.first['present_bytes']), mb(without.first['read_bytes']), *[without, with].map { |passes| format('%.3f s', per_100[passes, 'cpu_seconds']) },
   *[without, with].map { |passes| format('%.3f s', per_100[passes, 'seconds']) }]
end

# How long mmap and munmap take in a process, alone and while it is read again and again.
def latency
  output, status = Open3.popen2("#{TARGET}/mmap_latency", '300', LATENCY.to_s) do |_, stdout, waiter|
    yield Integer(stdout.gets)
    [stdout.read, waiter.value]
  end
  status.success? ? JSON.parse(output) : raise('mmap_latency failed')
end

def read_all(pid)
  system("#{TARGET}/read_all", pid.to_s, LATENCY.to_s, err: File::NULL)
end

# A row about the rounds of one run.
def latency_row(name, rounds)
  n, p50, p99, longest = %w[n p50 p99 longest].map { |key| rounds.map { |times| times[key] }.sort }
  [name, n.sum, *[p50, p99].map { |all| "#{median(all).round(1)} µs (#{all.first} to #{all.last})" }, "#{longest.last} µs"]
end

def table(title, columns, rows)
  puts '', title, '', "| #{columns.join(' | ')} |", "|#{'---|' * columns.size}"
  rows.each { |row| puts "| #{row.join(' | ')} |" }
end

$stdout.sync = true
rows = { accuracy: [], cost: [] }
RUBIES.each do |name, root|
  ruby = Inside.new(root)
  rows[:accuracy] << accuracy(ruby)
  rows[:cost] << [ruby.ask('Truth.slots')['ruby'], *cost(ruby)]
rescue StandardError => e
  puts "Ruby #{name} is not measured: #{e.message}"
ensure
  ruby&.stop
end
table('Read from outside, compared with inside',
      ['Ruby', 'slots', 'slots off', 'free slots off', 'classes equal', "malloc's main arena in use", 'trim predicted'], rows[:accuracy])
table("Cost of one reading, median of #{PASSES}; per 100 MB of the process",
      ['Ruby', 'process', 'read', 'processor', 'processor with owners', 'time', 'time with owners'], rows[:cost])
# It runs no Ruby; what a census with owners would copy is read. In turns, because a virtual machine is not equally fast for a minute.
rounds = Array.new(ROUNDS) { { 'alone' => latency { nil }, 'while it is read' => latency { |pid| read_all(pid) } } }
table("Duration of mmap, a write and munmap in a process of 300 MB, #{ROUNDS} rounds in turns: median (least to most)",
      ['run', 'n', 'p50', 'p99', 'longest of all'],
      rounds.first.keys.map { |name| latency_row(name, rounds.map { |round| round[name] }) })
