# frozen_string_literal: true

# The reader from outside under jemalloc against what jemalloc says inside, on every Ruby of bin/roots that is here: figures to the
# byte while the process is calm, and how far they are apart while threads allocate; planted strings and a planted leak; its cost,
# and what the process notices of it.

require_relative 'inside_ruby'

INSIDE = File.read("#{TESTS}/outside_jemalloc.rb")
PRELOADED = { 'LD_PRELOAD' => '/usr/lib/x86_64-linux-gnu/libjemalloc.so.2' }.freeze
# Unused pages stay, so that there is something to compare.
FOR_EVER = { 'MALLOC_CONF' => 'dirty_decay_ms:-1,muzzy_decay_ms:-1' }.freeze
# This root's own Ruby is linked with jemalloc.
LINKED = 'jemalloc'
BUSY = Integer(ENV.fetch('BUSY', '20'))
# Objects of the program whose threads allocate: few, so that what is in motion is a large part.
FEW = '3000'
LATENCY = Integer(ENV.fetch('LATENCY_SECONDS', '2'))
ATTEMPTS = 10
LEAKED = 2000
KEPT = 50_000

# A Ruby with jemalloc, which can be asked.
def start(root, variables = {})
  ruby = Inside.new(root, root == LINKED ? variables : PRELOADED.merge(variables))
  ruby.eval("eval(#{INSIDE.dump}); 1")
  ruby
rescue StandardError
  ruby&.stop
  raise
end

# Yields such a Ruby, and stops it.
def with_ruby(*arguments)
  ruby = start(*arguments)
  yield ruby
ensure
  ruby&.stop
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

# What the block says of a reading and of the answer to a question about the same moment, once it is true; or at last.
def calm(ruby, question)
  3.times { ruby.ask(question) }
  ATTEMPTS.times do |number|
    seen = own(census(ruby.pid))
    said = ruby.ask(question)
    return [seen, said] if yield(seen, said) || number + 1 == ATTEMPTS
  end
end

# Rows of sizes with the numbers of regions in use, by jemalloc and by the reading.
def classes(own, inside)
  slabs = own['slabs'].map { |slab| [slab['size'], slab['bytes'] / slab['size'] - slab['free'], slab['slabs']] }
  large = own['large'].map { |one| one.values_at('size', 'regions') }
  [inside['slabs'] + inside['large'], slabs + large]
end

def accuracy(ruby)
  ruby.begin('Jemalloc.serve')
  seen, said = calm(ruby, 'figures') { |seen, said| outside_figures(seen) == inside_figures(said) }
  off = outside_figures(seen).zip(inside_figures(said)).map { |outside, inside| outside - inside }
  inside, outside = classes(*calm(ruby, 'classes') { |seen, said| classes(seen, said).uniq.size == 1 })
  [mb(said['allocated']), *off, "#{(inside & outside).size} of #{(inside | outside).map(&:first).uniq.size}"]
end

# What a purge returns, and what was predicted.
def purge(ruby)
  ruby.eval("$large = Array.new(900) { 'x' * 60_000 }; 1")
  ruby.eval('$large = nil; 4.times { GC.start }; 1')
  predicted = census(ruby.pid)['malloc']['arenas'].sum { |arena| arena['trimmable_free_bytes'] }
  before = anonymous(ruby.pid)
  ruby.eval('Jemalloc.purge')
  returned = before - anonymous(ruby.pid)
  [mb(predicted), mb(returned), format('%+.2f %%', (predicted - returned) * 100.0 / returned)]
end

def amount(owners, name)
  owners['holders'].find { |holder| holder['name'] == name }&.fetch('amount') || { 'chunks' => 0 }
end

# Blocks of the planted leak's size without a holder.
def lost(owners)
  owners['nobody_sizes'].find { |size| size['size'] == 5120 }&.fetch('amount') || { 'chunks' => 0, 'present' => 0 }
end

# What was planted, and what of it is found with its holder.
def planted(ruby)
  ruby.eval('$kept = {}; 4.times { GC.start }; 1')
  before = census(ruby.pid, '--owners')['owners']
  ruby.eval("#{KEPT}.times { |i| $kept[i] = 'x' * 1000 }; Jemalloc.leak(#{LEAKED}, 5000); 4.times { GC.start }; 1")
  after = census(ruby.pid, '--owners')['owners']
  strings = amount(after, 'String')['chunks'] - amount(before, 'String')['chunks']
  found = lost(after)['chunks'] - lost(before)['chunks']
  held = after['holders'].sum { |holder| holder['amount']['present'] }
  # The planted leak has no holder by its nature.
  rest = after['nobody']['present'] - lost(after)['present']
  ["#{strings} of #{KEPT}", "#{found} of #{LEAKED}", format('%.1f %%', 100.0 * found / LEAKED), format('%.1f %%', 100.0 * held / (held + rest))]
end

# How far the bytes in use are from what is said before and after, while two threads allocate.
def busy(ruby)
  ruby.eval('Jemalloc.churn')
  last = nil
  apart = Array.new(BUSY) do
    before = ruby.ask('Jemalloc.figures')['allocated']
    outside = own(census(ruby.pid))['allocated_bytes']
    last = ruby.ask('Jemalloc.figures')['allocated']
    mean = (before + last) / 2.0
    (outside - mean) * 100 / mean
  end
  [mb(last), BUSY, *[apart.min, median(apart), apart.max].map { |share| format('%+.2f %%', share) }]
end

# How long mmap takes in it, alone and while one reading with owners follows another; in turns.
def latency(ruby, version)
  reader = [RbConfig.ruby, '-e', 'loop { system(*ARGV, out: File::NULL) || break }', "#{TARGET}/census", ruby.pid.to_s, '--owners']
  rounds = Array.new(ROUNDS) do
    alone = ruby.ask("Jemalloc.latency(#{LATENCY})")
    child = spawn(*reader, pgroup: true)
    begin
      { 'alone' => alone, 'while it is read' => ruby.ask("Jemalloc.latency(#{LATENCY})") }
    ensure
      Process.kill(:KILL, -child)
      Process.wait(child)
    end
  end
  rounds.first.keys.map { |name| latency_row([version, name], rounds.map { |round| round[name] }) }
end

rows = Hash.new { |all, name| all[name] = [] }
each_ruby({ **RUBIES, 'linked with jemalloc' => LINKED }) do |root|
  version = nil
  with_ruby(root) do |ruby|
    version = ruby.ask('Truth.slots')['ruby'] + (root == LINKED ? ', linked' : '')
    ruby.eval('Jemalloc.fragment')
    ruby.eval('Jemalloc.settle')
    rows[:planted] << [version, *planted(ruby)]
    rows[:cost] << [version, *cost(ruby)]
    rows[:latency].concat(latency(ruby, version))
  end
  with_ruby(root, FOR_EVER) do |ruby|
    copy = own(census(ruby.pid))['copies'].first
    rows[:purge] << [version, *purge(ruby)]
    ruby.eval('Jemalloc.fragment')
    ruby.eval('Jemalloc.settle')
    rows[:accuracy] << [version, "#{copy['form']}, #{copy['address_bits']} bits", *accuracy(ruby)]
  end
  with_ruby(root, 'N' => FEW) { |ruby| rows[:busy] << [version, *busy(ruby)] }
end
table('jemalloc read from outside, less what it says inside, in bytes',
      ['Ruby', 'jemalloc', 'allocated', *%w[allocated active dirty muzzy retained].map { |name| "#{name} off" }, 'sizes equal'], rows[:accuracy])
table('Unused pages that a purge would return, and returned', %w[Ruby predicted returned off], rows[:purge])
table('Planted under jemalloc, and found with its holder',
      ['Ruby', 'strings of a Hash', 'blocks that nobody holds', 'found', 'bytes of the rest with a holder'], rows[:planted])
table('jemalloc in use while two threads allocate, compared with the mean of inside before and after',
      ['Ruby', 'in use', *%w[readings least median most]], rows[:busy])
table("Cost of one reading under jemalloc, median of #{PASSES}; per 100 MB of the process", COST, rows[:cost])
table("Duration of mmap, a write and munmap in that Ruby, #{ROUNDS} rounds in turns: median (least to most)",
      ['Ruby', 'run', *LATENCY_COLUMNS], rows[:latency])
