# frozen_string_literal: true

# What the benchmarks of the reader from outside share: the Rubies that can be there, and a running one that answers. `bin/roots`
# makes the Rubies; one that is not here has no row.

require 'json'
require 'open3'

ROOTS = File.expand_path('../bin/roots', __dir__)
RUBIES = { 'in PATH' => nil, '2.7' => 'bullseye', '3.1' => 'bookworm', '3.3' => 'trixie', '3.4' => 'ruby34' }.freeze

# A running Ruby whose program prints its process id and then evaluates lines.
class LiveRuby
  attr_reader :pid

  def initialize(root, *command)
    command = [ROOTS, '--run', root, '--', *command] if root
    @stdin, @stdout, @waiter = Open3.popen2(*command)
    @pid = Integer(@stdout.gets || raise("no Ruby in #{root}"))
  end

  def begin(line)
    @stdin.puts(line)
  end

  def answer
    @stdout.gets&.chomp || raise('Ruby ended')
  end

  def eval(line)
    self.begin(line)
    answer
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
