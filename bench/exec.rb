# frozen_string_literal: true

# What `carat exec` adds to the start of a Ruby, with the runtime loaded: runs alternate, figures are medians.

require_relative 'median'

CARAT = ENV.fetch('CARAT', 'target/release/carat')
RUNS = Integer(ENV.fetch('RUNS', '31'))
# A setting that needs the runtime, and does nothing in a script that collects nothing.
OURS = [CARAT, 'exec', 'trim=full-gc', '--', 'ruby', '-e0'].freeze
PLAIN = ['ruby', '-e0'].freeze

def milliseconds(command)
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  system(*command) or abort "#{command.join(' ')} failed"
  (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
end

[OURS, PLAIN].each { |command| milliseconds(command) }
ours, plain = Array.new(RUNS) { [milliseconds(OURS), milliseconds(PLAIN)] }.transpose
added = median(ours.zip(plain).map { |one, other| one - other })
puts '| figure | carat | beside it | ratio |', '|---|---|---|---|'
puts format('| start with the runtime: added by `carat exec` | %.1f ms (%.1f ms) | ruby -e0 %.1f ms | %.2f |', added,
            median(ours), median(plain), median(ours) / median(plain))
