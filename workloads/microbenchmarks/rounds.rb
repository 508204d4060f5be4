# frozen_string_literal: true

require 'socket'
require_relative 'programs'

# `ROUNDS` rounds of each micro-benchmark, in this process or, with `WORKERS=1`, in a worker that is forked from it.
ROUNDS = Integer(ENV.fetch('ROUNDS', '100'))
WORKERS = Integer(ENV.fetch('WORKERS', '0'))

# Always true.
def rounds
  ROUNDS.times do
    Programs.growarray
    Programs.plist
    Programs.shrinkarray
  end
  true
end

# Whether every worker succeeded. A master that preloads has bound its socket before it forks, by which `prepare_fork`
# recognises it.
def forked_rounds
  listener = TCPServer.new('127.0.0.1', 0)
  workers = Array.new(WORKERS) { fork { rounds } }
  workers.map { |worker| Process.wait2(worker).last.success? }.all?
ensure
  listener&.close
end

exit(WORKERS.zero? ? rounds : forked_rounds)
