# frozen_string_literal: true

# All benchmarks in one table: carat's figure, the peer's figure from the same run, and the goal.
# A part that cannot run here prints the reason in its row; the others run.

require 'open3'
require 'tmpdir'

SAMPLE_SECONDS = ENV.fetch('SAMPLE_SECONDS', '60')
REPLICATIONS = ENV.fetch('REPLICATIONS', '1000')
AA = ENV.fetch('AA', '1')
GROWTH = ENV.fetch('GROWTH', '1')

# Goals by the start of the figure's name.
GOALS = {
  'start with the runtime' => 'at most 15 ms added',
  'CPU per received frame' => 'at most 0.30 of the peer',
  'user memory per idle connection' => 'at most 256 B',
  'resident at 10,000' => 'at most 10 MB',
  'CPU per HTTP request of a scenario' => 'at most 1.5 of the peer',
  'CPU per HTTP request' => 'at most 1.1 of the peer',
  'one sample a second' => 'at most 0.5 % of a core, 1/20 of the peer',
  'p99 of mmap+munmap' => 'at most 10 % more',
  'instructions per request with the probe' => 'at most 1 % more',
  'own memory of the process with the probe' => 'at most 1 MB more',
  'false differences, simulated' => 'at most 5.5 %',
  'the published effect of compaction' => 'found in 99 %, on average by 11 blocks',
  'false differences, real servers' => 'at most 2 of 20',
  'speed-up with 2 workers' => 'at least 1.8',
  'speed-up with 4 workers' => 'at least 3.3',
  'speed-up with 8 workers' => 'at least 5.7',
  'speed-up with 16 workers' => 'at least 7',
  'a node dies' => 'at most 45 s',
  'a node falls silent' => 'at most 45 s',
  'there is a verdict: no block is pending' => 'at most 2 s',
  'leaks found' => 'all',
  'false leaks' => 'none'
}.freeze

# Standard output of a command, whose first word may be variables; an error has the last line of its standard error.
def output_of(*command)
  output, error, status = Open3.capture3(*command)
  status.success? ? output : raise("#{command.first(3).join(' ')}: #{error.lines.last.to_s.strip}")
end

def cells(line)
  line.split('|').map(&:strip)[1..]
end

# The rows of a part that prints a table.
def table_rows(part)
  lines = output_of('bin/bench', part).lines.grep(/\A\| /).reject { |line| line.start_with?('| figure') }
  lines.map do |line|
    figure, ours, peer, ratio = cells(line)
    [figure, ours, ratio.to_s.empty? ? peer : "#{peer} (ratio #{ratio})"]
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
  [['false differences, simulated', "#{nothing[5]} %", "with a t test after every block #{nothing[6]} %"],
   ['the published effect of compaction', "found in #{effect[1]} %, on average by #{effect[3]} blocks", '']]
end

def aa
  text = output_of('bin/bench', 'aa', AA)
  verdicts = text.lines.grep(/\A\| \d/).map { |line| cells(line).last }
  false_verdicts = verdicts.count { |verdict| %w[smaller larger].include?(verdict) }
  [['false differences, real servers', "#{false_verdicts} of #{verdicts.size}", '']]
end

# In a new folder, so that earlier runs are not counted.
def growth
  Dir.mktmpdir do |folder|
    rows = output_of('bin/bench', 'growth', GROWTH, folder).lines.grep(/\A\| (leak|objects|cache|flat)/).map { |line| cells(line) }
    leaks, others = rows.partition { |row| %w[leak objects].include?(row.first) }
    count = ->(of) { "#{of.sum { |row| row[3].to_i }} of #{of.sum { |row| row[1].to_i }}" }
    [['leaks found', count[leaks], ''], ['false leaks', count[others], '']]
  end
end

# With one seed and one cluster.
def fleet
  lines = output_of({ 'SEEDS' => '1', 'RUNS' => '1' }, 'bin/bench', 'fleet').lines.grep(/\A\| /).map { |line| cells(line) }
  races, others = lines.partition { |row| row.first.match?(/\A\d+\z/) }
  speed_ups = races.drop(1).map { |row| ["speed-up with #{row[0]} workers", row[2], ''] }
  speed_ups + others.select { |row| row.first.match?(/: /) }.map { |event, after| [event, after, ''] }
end

def goal(figure)
  GOALS.find { |beginning, _| figure.start_with?(beginning) }&.last
end

PARTS = { 'exec' => -> { table_rows('exec') }, 'load' => -> { table_rows('load') }, 'sample' => -> { sample },
          'probe' => -> { table_rows('probe') }, 'growth' => -> { growth }, 'fleet' => -> { fleet }, 'stats' => -> { stats }, 'aa' => -> { aa } }.freeze

$stdout.sync = true
puts '| part | figure | carat | peer | goal |', '|---|---|---|---|---|'
PARTS.each do |part, measure|
  measure.call.each { |figure, ours, peer| puts "| #{part} | #{figure} | #{ours} | #{peer} | #{goal(figure)} |" }
rescue StandardError => e
  puts "| #{part} | not measured: #{e.message} | | | |"
end
