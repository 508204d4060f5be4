# frozen_string_literal: true

# What the two benchmarks of `bin/bench inside` share: a Ruby with a program, its census, what a census costs, and what the
# process that is read notices.

require_relative 'live_ruby'
require_relative 'median'

TARGET = File.expand_path('../target/release/examples', __dir__)
TESTS = File.expand_path('../crates/carat/tests/it/data', __dir__)
PROGRAM = File.read("#{TESTS}/outside.rb")
# Objects of the program, so that reading takes long enough to be measured.
SIZE = ENV.fetch('N', '60000')
PASSES = Integer(ENV.fetch('PASSES', '7'))
ROUNDS = Integer(ENV.fetch('ROUNDS', '7'))
# Bytes that are copied at once.
COPIED = 2 << 20
PAGE = 4096

# A Ruby with the program of the tests. `variables` are of its environment.
class Inside < LiveRuby
  def initialize(root, variables = {})
    super(root, 'env', *{ 'N' => SIZE, **variables }.map { |pair| pair.join('=') }, 'ruby', '-e', PROGRAM)
  end
end

def census(pid, *options)
  output, error, status = Open3.capture3("#{TARGET}/census", pid.to_s, *options)
  status.success? ? JSON.parse(output) : raise(error.lines.last.to_s.strip)
end

def mb(bytes)
  format('%.1f MB', bytes / 1e6)
end

# Runs of pages in memory of a mapping: first and last page.
def present_runs(pagemap, from, to)
  entries = pagemap.pread((to - from) / PAGE * 8, from / PAGE * 8).unpack('Q*')
  present = entries.each_index.select { |number| entries[number] >> 63 == 1 }
  present.slice_when { |one, other| other != one + 1 }.map { |run| [run.first, run.last] }
end

# Copies what the process has in memory that it can write, and throws it away: bytes and seconds of the processor.
def plain_copy(pid)
  started = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  buffer = String.new(capacity: COPIED)
  copied = 0
  mappings = File.readlines("/proc/#{pid}/maps").map { |line| line.match(/\A(\h+)-(\h+) rw/) }.compact
  File.open("/proc/#{pid}/mem", 'rb') do |memory|
    File.open("/proc/#{pid}/pagemap", 'rb') do |pagemap|
      mappings.each do |mapping|
        from, to = mapping.captures.map { |address| address.to_i(16) }
        present_runs(pagemap, from, to).each do |first, last|
          (from + first * PAGE).step(from + (last + 1) * PAGE - 1, COPIED) do |at|
            copied += memory.pread([COPIED, from + (last + 1) * PAGE - at].min, at, buffer).bytesize
          end
        end
      end
    end
  end
  [copied, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - started]
end

# What a reading without and with owners costs per 100 MB of the process, and how often a plain copy of its memory fits in.
def cost(ruby)
  copies = []
  without, with = [[], ['--owners']].map do |options|
    Array.new(PASSES) do
      copies << plain_copy(ruby.pid)
      census(ruby.pid, *options).fetch('cost')
    end
  end
  copy = median(copies.map { |bytes, seconds| seconds / bytes * 1e8 })
  per_100 = ->(passes, key) { median(passes.map { |pass| pass[key] / pass['present_bytes'] * 1e8 }) }
  processor = [without, with].map { |passes| per_100[passes, 'cpu_seconds'] }
  [mb(without.first['present_bytes']), mb(without.first['read_bytes']), *processor.map { |seconds| format('%.3f s', seconds) },
   format('%.3f s', copy), *processor.map { |seconds| format('%.1f', seconds / copy) },
   *[without, with].map { |passes| format('%.3f s', per_100[passes, 'seconds']) }]
end

COST = ['Ruby', 'process', 'read', 'processor', 'with owners', 'plain copy', 'ratio', 'ratio with owners', 'time', 'time with owners'].freeze

# A row about the rounds of one run.
def latency_row(names, rounds)
  n, p50, p99, longest = %w[n p50 p99 longest].map { |key| rounds.map { |times| times[key] }.sort }
  [*names, n.sum, *[p50, p99].map { |all| "#{median(all).round(1)} µs (#{all.first} to #{all.last})" }, "#{longest.last} µs"]
end

LATENCY_COLUMNS = ['n', 'p50', 'p99', 'longest of all'].freeze

# Yields each Ruby that is here with its name and root; one that fails is said.
def each_ruby(rubies)
  rubies.each do |name, root|
    yield root
  rescue StandardError => e
    puts "Ruby #{name} is not measured: #{e.message}"
  end
end

def table(title, columns, rows)
  puts '', title, '', "| #{columns.join(' | ')} |", "|#{'---|' * columns.size}"
  rows.each { |row| puts "| #{row.join(' | ')} |" }
end

$stdout.sync = true
