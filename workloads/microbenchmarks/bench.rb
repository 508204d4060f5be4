# frozen_string_literal: true

# Processor time of each micro-benchmark: the median of several runs, each in its own process.
# Settings come from the environment: `carat exec compact=auto -- ruby bench.rb`.
require 'json'
require 'rbconfig'

RUNS = Integer(ENV.fetch('RUNS', '5'))
PROGRAMS = ARGV.empty? ? %w[growarray plist shrinkarray] : ARGV

def children_seconds
  times = Process.times
  times.cutime + times.cstime
end

def measure(program)
  before = children_seconds
  system(RbConfig.ruby, File.join(__dir__, "#{program}.rb"), exception: true)
  children_seconds - before
end

PROGRAMS.each do |program|
  seconds = Array.new(RUNS) { measure(program) }.sort
  puts JSON.generate(program: program, ruby: RUBY_VERSION, runs: RUNS, cpu_seconds_median: seconds[RUNS / 2].round(3),
                     cpu_seconds_min: seconds.first.round(3), cpu_seconds_max: seconds.last.round(3))
end
