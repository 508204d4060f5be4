# frozen_string_literal: true

# The reader from outside against what Ruby and malloc say inside, on every Ruby that is here; its cost; and what the process
# that is read notices of it. `bin/roots` makes the Rubies; a Ruby that is not here has no row.

require 'rexml/document'
require 'tempfile'
require_relative 'inside_ruby'

LATENCY = Integer(ENV.fetch('LATENCY_SECONDS', '5'))

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

rows = { accuracy: [], cost: [] }
each_ruby(RUBIES) do |root|
  ruby = Inside.new(root)
  rows[:accuracy] << accuracy(ruby)
  rows[:cost] << [ruby.ask('Truth.slots')['ruby'], *cost(ruby)]
ensure
  ruby&.stop
end
table('Read from outside, compared with inside',
      ['Ruby', 'slots', 'slots off', 'free slots off', 'classes equal', "malloc's main arena in use", 'trim predicted'], rows[:accuracy])
table("Cost of one reading, median of #{PASSES}; per 100 MB of the process", COST, rows[:cost])
# It runs no Ruby; what a census with owners would copy is read. In turns, because a virtual machine is not equally fast for a minute.
rounds = Array.new(ROUNDS) { { 'alone' => latency { nil }, 'while it is read' => latency { |pid| read_all(pid) } } }
table("Duration of mmap, a write and munmap in a process of 300 MB, #{ROUNDS} rounds in turns: median (least to most)",
      ['run', *LATENCY_COLUMNS], rounds.first.keys.map { |name| latency_row([name], rounds.map { |round| round[name] }) })
