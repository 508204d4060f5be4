# frozen_string_literal: true

# The reader from outside under jemalloc against what jemalloc says inside, on every Ruby of bin/roots that is here: figures to the
# byte while the process is calm, and how far they are apart while threads allocate; planted strings and a planted leak; its cost.

require 'json'
require 'open3'
require_relative 'median'

TARGET = File.expand_path('../target/release/examples', __dir__)
TESTS = File.expand_path('../crates/carat/tests/it/data', __dir__)
PROGRAM = File.read("#{TESTS}/outside.rb")
INSIDE = File.read("#{TESTS}/outside_jemalloc.rb")
ROOTS = File.expand_path('../bin/roots', __dir__)
LIBRARY = '/usr/lib/x86_64-linux-gnu/libjemalloc.so.2'
RUBIES = { 'in PATH' => nil, '2.7' => 'bullseye', '3.1' => 'bookworm', '3.3' => 'trixie', '3.4' => 'ruby34' }.freeze
# Objects of the program, so that reading takes long enough to be measured.
SIZE = ENV.fetch('N', '60000')
PASSES = Integer(ENV.fetch('PASSES', '7'))
BUSY = Integer(ENV.fetch('BUSY', '20'))
ATTEMPTS = 10
LEAKED = 2000
KEPT = 50_000

# A running Ruby with jemalloc that evaluates lines.
class Inside
  attr_reader :pid

  def initialize(root)
    command = ['env', "LD_PRELOAD=#{LIBRARY}", "N=#{SIZE}", 'ruby', '-e', PROGRAM]
    command = [ROOTS, '--run', root, '--', *command] if root
    @stdin, @stdout, @waiter = Open3.popen2(*command)
    @pid = Integer(@stdout.gets || raise("no Ruby in #{root}"))
    eval("eval(#{INSIDE.dump}); 1")
  end

  def begin(line)
    @stdin.puts(line)
  end

  def eval(line)
    self.begin(line)
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

def own(census)
  census.dig('malloc', 'jemalloc') || raise(census['unknown'].to_s)
end

def anonymous(pid)
  File.read("/proc/#{pid}/status")[/^RssAnon:\s+(\d+)/, 1].to_i * 1024
end

def outside_figures(own)
  [own['allocated_bytes'], own['active_bytes'], *%w[dirty muzzy retained].map { |kind| own[kind]['bytes'] }]
end

def inside_figures(said)
  [said['allocated'], said['active'], *%w[dirty_pages muzzy_pages].map { |kind| said[kind] * said['page'] }, said['retained']]
end

# The reading and what was said of the same moment, once nothing changed between them; the last that the Ruby answers.
def calm(ruby)
  ruby.begin('Jemalloc.serve')
  3.times { ruby.ask('figures') && ruby.ask('classes') }
  ATTEMPTS.times do |number|
    seen = census(ruby.pid)
    said = ruby.ask('figures')
    last = number + 1 == ATTEMPTS
    return [seen, said] if last || outside_figures(own(seen)) == inside_figures(said)
  end
end

def equal_classes(own, inside)
  slabs = own['slabs'].to_h { |slab| [slab['size'], [slab['in_use'] + slab['cached'], slab['slabs']]] }
  large = own['large'].to_h { |one| [one['size'], one['regions']] }
  equal = inside['slabs'].count { |size, regions, number| slabs[size] == [regions, number] }
  equal += inside['large'].count { |size, number| large[size] == number }
  "#{equal} of #{inside['slabs'].size + inside['large'].size}"
end

def mb(bytes)
  format('%.2f MB', bytes / 1e6)
end

# What a purge returns, and what was predicted.
def purge(ruby)
  predicted = census(ruby.pid)['malloc']['arenas'].sum { |arena| arena['trimmable_free_bytes'] }
  before = anonymous(ruby.pid)
  ruby.eval('Jemalloc.purge')
  "#{mb(predicted)}, returned #{mb(before - anonymous(ruby.pid))}"
end

def accuracy(ruby)
  purged = purge(ruby)
  seen, said = calm(ruby)
  off = outside_figures(own(seen)).zip(inside_figures(said)).map { |outside, inside| outside - inside }
  classes = equal_classes(own(seen), ruby.ask('classes'))
  copy = own(seen)['copies'].first
  [seen['ruby'], "#{copy['form']}, #{copy['address_bits']} bits", mb(said['allocated']), *off.first(3), off[4], classes, purged]
end

def amount(owners, name)
  owners['holders'].find { |holder| holder['name'] == name }&.fetch('amount') || { 'chunks' => 0 }
end

def lost(owners)
  owners['nobody_sizes'].find { |size| size['size'] == 5120 }&.dig('amount', 'chunks') || 0
end

# What was planted, and what of it is found with its holder.
def planted(ruby)
  ruby.eval('$kept = {}; 4.times { GC.start }; 1')
  before = census(ruby.pid, '--owners')
  ruby.eval("#{KEPT}.times { |i| $kept[i] = 'x' * 1000 }; Jemalloc.leak(#{LEAKED}, 5000); 4.times { GC.start }; 1")
  after = census(ruby.pid, '--owners')
  strings = amount(after['owners'], 'String')['chunks'] - amount(before['owners'], 'String')['chunks']
  owners = after['owners']
  held = owners['holders'].sum { |holder| holder['amount']['present'] }
  share = 100.0 * held / (held + owners['nobody']['present'])
  [after['ruby'], "#{strings} of #{KEPT}", "#{lost(owners) - lost(before['owners'])} of #{LEAKED}", format('%.1f %%', share)]
end

# How far the bytes in use are from what is said before and after, while two threads allocate.
def busy(ruby)
  ruby.eval('Jemalloc.churn')
  apart = Array.new(BUSY) do
    before = ruby.ask('Jemalloc.figures')['allocated']
    outside = own(census(ruby.pid))['allocated_bytes']
    after = ruby.ask('Jemalloc.figures')['allocated']
    mean = (before + after) / 2.0
    (outside - mean) * 100 / mean
  end
  [BUSY, *[apart.min, median(apart), apart.max].map { |share| format('%+.2f %%', share) }]
end

def cost(ruby)
  without, with = [[], ['--owners']].map { |options| Array.new(PASSES) { census(ruby.pid, *options).fetch('cost') } }
  per_100 = ->(passes, key) { median(passes.map { |pass| pass[key] / pass['present_bytes'] * 1e8 }) }
  [mb(without.first['present_bytes']), mb(without.first['read_bytes']),
   *%w[cpu_seconds seconds].flat_map { |key| [without, with].map { |passes| format('%.3f s', per_100[passes, key]) } }]
end

def table(title, columns, rows)
  puts '', title, '', "| #{columns.join(' | ')} |", "|#{'---|' * columns.size}"
  rows.each { |row| puts "| #{row.join(' | ')} |" }
end

$stdout.sync = true
rows = { accuracy: [], planted: [], busy: [], cost: [] }
RUBIES.each do |name, root|
  ruby = Inside.new(root)
  ruby.eval('Jemalloc.fragment')
  ruby.eval('Jemalloc.settle')
  rows[:planted] << planted(ruby)
  version = rows[:planted].last.first
  rows[:cost] << [version, *cost(ruby)]
  rows[:accuracy] << accuracy(ruby)
  ruby.stop
  ruby = Inside.new(root)
  rows[:busy] << [version, *busy(ruby)]
rescue StandardError => e
  puts "Ruby #{name} is not measured: #{e.message}"
ensure
  ruby&.stop
end
table('jemalloc read from outside, less what it says inside, in bytes',
      ['Ruby', 'jemalloc', 'allocated', 'allocated off', 'active off', 'dirty off', 'retained off', 'classes equal', 'purge predicted'],
      rows[:accuracy])
table('Planted under jemalloc, and found with its holder',
      ['Ruby', 'strings of a Hash', 'blocks that nobody holds', 'bytes with a holder'], rows[:planted])
table('jemalloc in use while two threads allocate, compared with the mean of inside before and after',
      %w[Ruby readings least median most], rows[:busy])
table("Cost of one reading under jemalloc, median of #{PASSES}; per 100 MB of the process",
      ['Ruby', 'process', 'read', 'processor', 'processor with owners', 'time', 'time with owners'], rows[:cost])
