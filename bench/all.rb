# frozen_string_literal: true

# Every benchmark in one table: this machine's figure, the peer's from the same run, and what was aimed at.
# A part that cannot run here says why in its line; the others go on.

require 'open3'
require 'tmpdir'

SAMPLE_SECONDS = ENV.fetch('SAMPLE_SECONDS', '60')
REPLICATIONS = ENV.fetch('REPLICATIONS', '1000')
AA = ENV.fetch('AA', '1')
GROWTH = ENV.fetch('GROWTH', '1')

# Aims by the beginning of the figure they are for.
AIMS = {
  'start with the runtime' => 'at most 15 ms added',
  'CPU per received frame' => 'at most 0.30 of it',
  'user memory per idle connection' => 'at most 256 B',
  'resident at 10,000' => 'at most 10 MB',
  'CPU per HTTP request' => 'at most 1.1 of it',
  'one sample a second' => 'at most 0.5 % of a core, 1/20 of it',
  'p99 of mmap+munmap' => 'at most 10 % more',
  'instructions per request with the probe' => 'at most 1 % more',
  'own memory of the process with the probe' => 'at most 1 MB more',
  'false differences, simulated' => 'at most 5.5 %',
  'the published effect of compaction' => 'found in 99 %, on average by 11 blocks',
  'false differences, real servers' => 'at most 2 of 20',
  'leaks told as leaks' => 'all',
  'what levels off or stays flat told as a leak' => 'none'
}.freeze

# What a command prints; its words where it fails.
def output_of(*command)
  output, error, status = Open3.capture3(*command)
  status.success? ? output : raise("#{command.first(3).join(' ')}: #{error.lines.last.to_s.strip}")
end

def cells(line)
  line.split('|').map(&:strip)[1..]
end

# The rows of a part that prints a table of its own already.
def own_rows(part)
  lines = output_of('bin/bench', part).lines.grep(/\A\| /).reject { |line| line.start_with?('| figure') }
  lines.map do |line|
    figure, ours, peer, ratio = cells(line)
    [figure, ours, ratio.to_s.empty? ? peer : "#{peer} (#{ratio} of it)"]
  end
end

def sample
  text = output_of('bin/bench', 'sample', SAMPLE_SECONDS)
  share = ->(name) { text[/^#{name} .* ([\d.]+) % of one core/, 1] }
  p99 = ->(name) { text.scan(/#{name}-\d+ +p50 [\d.]+ +p99 ([\d.]+)/).flatten.map(&:to_f).sort[1] }
  [["one sample a second of nine processes", "#{share['carat']} % of a core", "psrecord #{share['psrecord']} %"],
   ["p99 of mmap+munmap while recorded", "#{p99['recorded']} µs", "alone #{p99['alone']} µs"]]
end

def stats
  text = output_of('bin/bench', 'stats', REPLICATIONS, 'nothing', 'effect')
  effect, nothing = text.split('### ').drop(1).map { |table| cells(table.lines.grep(/\A\| normal/).first) }
  [['false differences, simulated', "#{nothing[5]} %", "looking after every block with a t test #{nothing[6]} %"],
   ['the published effect of compaction', "found in #{effect[1]} %, on average by #{effect[3]} blocks", '']]
end

def aa
  text = output_of('bin/bench', 'aa', AA)
  verdicts = text.lines.grep(/\A\| \d/).map { |line| cells(line).last }
  false_ones = verdicts.count { |verdict| %w[smaller larger].include?(verdict) }
  [['false differences, real servers', "#{false_ones} of #{verdicts.size}", '']]
end

# A folder of its own, so that runs of another day are not counted.
def growth
  Dir.mktmpdir do |folder|
    rows = output_of('bin/bench', 'growth', GROWTH, folder).lines.grep(/\A\| (leak|objects|cache|flat)/).map { |line| cells(line) }
    leaks, others = rows.partition { |row| %w[leak objects].include?(row.first) }
    count = ->(of) { "#{of.sum { |row| row[3].to_i }} of #{of.sum { |row| row[1].to_i }}" }
    [['leaks told as leaks', count[leaks], ''], ['what levels off or stays flat told as a leak', count[others], '']]
  end
end

def aim(figure)
  AIMS.find { |beginning, _| figure.start_with?(beginning) }&.last
end

PARTS = { 'exec' => -> { own_rows('exec') }, 'load' => -> { own_rows('load') }, 'sample' => -> { sample },
          'probe' => -> { own_rows('probe') }, 'growth' => -> { growth }, 'stats' => -> { stats }, 'aa' => -> { aa } }.freeze

$stdout.sync = true
puts '| part | figure | carat | beside it | aim |', '|---|---|---|---|---|'
PARTS.each do |part, measure|
  measure.call.each { |figure, ours, peer| puts "| #{part} | #{figure} | #{ours} | #{peer} | #{aim(figure)} |" }
rescue StandardError => e
  puts "| #{part} | not measured: #{e.message} | | | |"
end
