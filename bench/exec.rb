# frozen_string_literal: true

# The time that `carat exec` with the runtime adds to the start of a Ruby. Runs alternate; figures are medians.

require_relative 'median'

CARAT = ENV.fetch('CARAT')
RUNS = Integer(ENV.fetch('RUNS', '31'))
# A setting that loads the runtime and does nothing in a script without a garbage collection.
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
puts '| figure | carat | peer | ratio |', '|---|---|---|---|'
puts format('| start with the runtime: added by `carat exec` | %.1f ms (%.1f ms) | ruby -e0 %.1f ms | %.2f |', added,
            median(ours), median(plain), median(ours) / median(plain))
