# frozen_string_literal: true

# Who keeps what by `carat explain --who`, against what Ruby knows inside, on every Ruby that is here: objects that are planted in
# eleven ways, what would go without their holder, the references of every object, the cost, and readings of a process that runs.
# `bin/roots` makes the Rubies; a Ruby that is not here has no row.

require 'set'
require 'tempfile'
require_relative 'live_ruby'
require_relative 'median'

CARAT = ENV.fetch('CARAT')
PLANTS = File.read(File.expand_path('../crates/carat/tests/it/data/who.rb', __dir__))
# Two kinds more than the tests have, and a loop that evaluates lines.
MORE = <<~RUBY
  class Pooled < Keepsake; end
  class Paused < Keepsake; end
  class Flowing < Keepsake; end
  def pool(count); Thread.current.thread_variable_set(:pool, Array.new(count) { |number| Pooled.new(number) }); nil; end
  def deep(depth); depth.zero? ? nil : [deep(depth - 1), nil].last; end
  $pooled = Thread.new { pool(COUNT); deep(50); Thread.stop }
  sleep 0.01 until $pooled.stop?
  def pause_with(count); kept = Array.new(count) { |number| Paused.new(number) }; Fiber.yield; kept.size; end
  $paused = Fiber.new { pause_with(COUNT) }
  $paused.resume
  class Stream; @flow = []; def self.flow; @flow; end; end
  4.times { GC.start }
  $stdout.sync = true
  puts $$
  while (line = $stdin.gets)
    puts eval(line, TOPLEVEL_BINDING).to_s
  end
RUBY
COUNT = 2000
# The way to the objects of each class, without numbers in brackets.
WAYS = {
  'Cached' => /\ACached ← \[a String\] of Hash .* ← @store of Cache\z/,
  'Logged' => /\ALogged ← \[n\] of Array .* ← @entries of Audit ← constant Audit::CURRENT\z/,
  'Heard' => /\AHeard ← captured variable heard of subscribe at plants\.rb:\d+ ← Proc ← \[n\] of Array .* ← global variable \$subscribers\z/,
  'Ticketed' => /\ATicketed ← \[n\] of Array .* ← \[:tickets\] of (Thread|Fiber)/,
  'Stored' => /\AStored ← \[n\] of Array .* ← \[:sessions\] of Hash .* ← \[:list\] of Hash .* ← constant Deep::Settings::STORE\z/,
  'Rowed' => /\ARowed ← \[n\] of Array .* ← @@rows of Registry\z/,
  'Bound' => /\ABound ← captured variable bound of finalizer_for at plants\.rb:\d+ ← Proc ← .*a finalizer\z/,
  'Local' => /\ALocal ← \[n\] of Array .* ← local variable kept of wait_with at plants\.rb:\d+/,
  'Listed' => /\AListed ← \.left of Couple ← \[n\] of Array .* ← @pairs of the main object\z/,
  'Pooled' => /\APooled ← \[n\] of Array .* ← .*\[:pool\] of /,
  'Paused' => /\APaused ← \[n\] of Array .* ← local variable kept of pause_with at .*:\d+/
}.freeze
RETAINED = %w[Cached Logged Heard Ticketed Stored Rowed Couple].freeze
# References of these types must all be found.
TYPES = %w[ARRAY HASH OBJECT STRUCT STRING].freeze
BIG = Integer(ENV.fetch('BIG', '1000000'))
PASSES = Integer(ENV.fetch('PASSES', '5'))
READINGS = 6

# A Ruby with the plants.
class Planted < LiveRuby
  def initialize(root)
    program = "eval(#{PLANTS.dump}, TOPLEVEL_BINDING, 'plants.rb', 1)\n#{MORE}"
    # What is loaded between two dumps would be a difference between them.
    super(root, 'ruby', '-robjspace', '-rjson', '-e', program)
  end
end

# What carat prints.
def carat(*words)
  output, = Open3.capture2(CARAT, *words, err: File::NULL)
  output
end

def explained(pid, *options)
  JSON.parse(carat('explain', pid.to_s, '--alone', '--json', *options))['census']['processes'].first
end

def who(pid, name)
  carat('explain', pid.to_s, '--alone', '--who', name)
end

# The ways to the objects of a class, as that prints them, each with the number of its objects.
def ways(text, name)
  lines = text.scan(/^ +([\d,]+)  (#{name} ← .*)$/)
  lines.to_h { |number, way| [way.gsub(/\[\d+\]/, '[n]'), number.delete(',').to_i] }
end

def right_share(pid, name, pattern)
  ways(who(pid, name), name).sum { |way, number| way.match?(pattern) ? number : 0 } / COUNT.to_f
end

# The references of a heap dump.
class Inside
  attr_reader :references, :types

  def initialize(ruby)
    @references = {}
    @types = {}
    @roots = []
    Tempfile.create('dump') do |file|
      ruby.eval("GC.start; File.open(#{file.path.dump}, 'w') { |out| ObjectSpace.dump_all(output: out) }; 1")
      File.foreach(file.path) { |line| add(JSON.parse(line)) }
    end
  end

  def reached(left_out = nil)
    reached = Set.new
    waiting = @roots.dup
    until waiting.empty?
      address = waiting.pop
      next if address == left_out || !@references.key?(address) || !reached.add?(address)

      waiting.concat(@references[address])
    end
    reached
  end

  private

  def add(line)
    references = line.fetch('references', [])
    return @roots.concat(references) if line['type'] == 'ROOT'

    # A call cache does not mark its class: for Ruby's dump it is the word where others have theirs.
    kept = line['class'] unless line['imemo_type'] == 'callcache'
    @references[line['address']] = [*references, kept].compact
    @types[line['address']] = line['type']
  end
end

# References that Ruby has inside and that the dump from outside lacks.
def missing(ruby, inside)
  outside = {}
  carat('heap-dump', ruby.pid.to_s, '-o', '-').each_line do |line|
    found = JSON.parse(line)
    # Inside, an object's class counts as one of its references.
    outside[found['address']] = [*found['references'], found['class']] if found['address']
  end
  return if outside.empty?

  counts = Hash.new(0)
  inside.reached.each do |address|
    type = inside.types[address]
    inside.references[address].each do |target|
      # Captured variables refer to themselves, by which they are kept no longer.
      next if target == address || !inside.types.key?(target)

      counts[:all] += 1
      counts[TYPES.include?(type) ? :typed : :other] += 1 unless outside.fetch(address, []).include?(target)
    end
  end
  counts
end

def percent(share)
  format('%.2f %%', 100 * share)
end

def row(*cells)
  puts "| #{cells.join(' | ')} |"
end

def table(title, *columns)
  puts "\n## #{title}\n\n"
  row(*columns)
  row(*columns.map { '---' })
end

wanted = ENV.fetch('RUBIES', RUBIES.keys.join(',')).split(',')
rubies = RUBIES.slice(*wanted).select { |_, root| root.nil? || system(ROOTS, '--check', root, out: File::NULL, err: File::NULL) }
planted = rubies.transform_values { |root| Planted.new(root) }

begin
  table('Planted objects that are found by the way on which they are kept', 'Ruby', *WAYS.keys)
  planted.each do |name, ruby|
    row(name, *WAYS.map { |plant, pattern| percent(right_share(ruby.pid, plant, pattern)) })
  end

  insides = planted.transform_values { |ruby| Inside.new(ruby) }
  table('Objects that would go without a holder, outside compared with inside', 'Ruby', *RETAINED)
  planted.each do |name, ruby|
    holders = ruby.ask('HOLDERS.to_json')
    all = insides[name].reached.size
    cells = RETAINED.map do |plant|
      inside = all - insides[name].reached(holders[plant]).size
      outside = explained(ruby.pid, '--who', plant).dig('who', 'classes', 0, 'holder', 'objects')
      outside ? "#{outside} of #{inside}, #{format('%+.2f %%', 100.0 * (outside - inside) / inside)}" : 'unknown'
    end
    row(name, *cells)
  end

  if system(CARAT, 'heap-dump', '--help', out: File::NULL, err: File::NULL)
    table('References that Ruby has inside and that are not found', 'Ruby', 'references', "of #{TYPES.join(', ')}", 'of others', 'share')
    planted.each do |name, ruby|
      counts = missing(ruby, insides[name])
      next row(name, 'unknown', '', '', '') unless counts

      row(name, counts[:all], counts[:typed], counts[:other], percent((counts[:typed] + counts[:other]) / counts[:all].to_f))
    end
  end

  table('Cost of who keeps what, beyond that of the plain reading in the same run', 'Ruby', 'objects', 'plain reading', 'with --who',
        'more per million objects')
  planted.each do |name, ruby|
    ruby.eval("$big = Array.new(#{BIG}) { |number| number.to_s * 8 }; 3.times { GC.start }; 1")
    plain = Array.new(PASSES) { explained(ruby.pid)['cost']['cpu_seconds'] }
    who = Array.new(PASSES) { explained(ruby.pid, '--who', 'Cached') }
    found = who.first
    objects = found['who']['reached_objects'] + found['who']['unreached_objects']
    seconds = [median(plain), median(who.map { |census| census['cost']['cpu_seconds'] })]
    row(name, objects, *seconds.map { |one| format('%.2f s', one) },
        format('%.2f s', (seconds[1] - seconds[0]) / objects * 1e6))
  end

  table("#{READINGS} readings of a process that runs", 'Ruby', 'readings with the right holder', 'objects seen')
  planted.each do |name, ruby|
    ruby.eval('$run = Array.new(2) { Thread.new { loop { Stream.flow << Flowing.new(Stream.flow.size); sleep 0.0005 } } }; sleep 1; 1')
    texts = Array.new(READINGS) { who(ruby.pid, 'Flowing') }
    seen = texts.map { |text| ways(text, 'Flowing').find { |way, _| way.end_with?(' ← @flow of Stream') }&.last }
    told = seen.zip(texts).map do |number, text|
      text.include?(' moved, ') ? "#{number || 'none'}, said to be incomplete" : number || 'none'
    end
    row(name, "#{seen.compact.size} of #{READINGS}", told.join('; '))
  end
ensure
  planted.each_value(&:stop)
end
