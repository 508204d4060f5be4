# frozen_string_literal: true

# What a fleet gains, and what a lost machine costs it. Trials are fake: they take their time and start no server.
# First the time to a verdict with 1, 2, 4, 8 and 16 workers, processes of this machine. Then, in clusters of Slurm on this
# machine (bin/roots slurm), how soon the block of a lost node begins elsewhere, and how soon nothing is pending after a verdict.

require 'json'
require 'open3'
require 'tmpdir'
require_relative 'median'

CARAT = ENV.fetch('CARAT')
ROOTS = ENV.fetch('CARAT_ROOTS') { File.join(ENV.fetch('XDG_CACHE_HOME') { File.expand_path('~/.cache') }, 'carat/roots') }
CLUSTER = File.expand_path('../crates/carat/tests/slurm/cluster', __dir__)
WORKERS = [1, 2, 4, 8, 16].freeze
SEEDS = (1..Integer(ENV.fetch('SEEDS', '3'))).freeze
RUNS = Integer(ENV.fetch('RUNS', '3'))
TRIAL = Float(ENV.fetch('TRIAL_SECONDS', '1.5'))

# Two variants, the second 0.4 % smaller; trials scatter by 0.4 %. So about 20 blocks decide, several for each of 8 workers.
FAKE = '71.16e6:285e3,70.86e6:285e3'
EXPERIMENT = <<~TOML
  name = "fake"
  [server]
  command = ["true"]
  ready = { tcp = true }
  [load.http]
  path = "/"
  requests = 1
  [[variant]]
  name = "default"
  [[variant]]
  name = "other"
  [measure]
  primary = "memory.rss.final"
  [trials]
  max = 60
  margin = "0.25%"
TOML

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Time until the block is true.
def seconds_until(what)
  began = now
  until yield
    raise "waited too long: #{what}" if now - began > 180

    sleep 0.02
  end
  now - began
end

# A planned fleet in a folder of its own, and the environment of everything that runs for it.
class Fleet
  attr_reader :folder

  def initialize(folder, seed, *options)
    @folder = folder
    @environment = { 'XDG_CACHE_HOME' => "#{folder}/cache", 'TMPDIR' => folder }
    File.write("#{folder}/fake.toml", EXPERIMENT)
    carat('plan', 'fake.toml', '-o', 'fleet', '--seed', seed.to_s, *options)
  end

  def carat(*arguments, before: [], **environment)
    command = [*before, CARAT, 'fleet', *arguments]
    output, error, status = Open3.capture3(@environment.merge(environment.transform_keys(&:to_s)), *command, chdir: @folder)
    # 3 is a verdict that decides nothing.
    raise "#{command.join(' ')}: #{error}" unless [0, 3].include?(status.exitstatus)

    output
  end

  def status
    JSON.parse(carat('status', 'fleet', '--json'))
  end

  def done
    status['types'].first['done']
  end

  def begun(block)
    Dir[format('%<folder>s/fleet/attempts/b%<block>04d.*', folder: @folder, block: block)].size
  end

  def stopped?
    File.exist?("#{@folder}/fleet/stop")
  end
end

# The time to a verdict with so many workers, the blocks that count, and the blocks that had a result besides.
def race(seed, workers)
  Dir.mktmpdir do |folder|
    fleet = Fleet.new(folder, seed)
    blocks = Queue.new
    (1..fleet.status['types'].first['planned']).each { |block| blocks << block }
    began = now
    threads = Array.new(workers) { |number| Thread.new { work(fleet, blocks, "worker-#{number}") } }
    fleet.carat('watch', 'fleet', '--every', '100ms')
    seconds = now - began
    blocks.clear
    threads.each(&:join)
    counted = fleet.status['counted'].size
    [seconds, counted, fleet.done - counted]
  end
end

def work(fleet, blocks, name)
  loop do
    block = blocks.pop(true)
    fleet.carat('block', 'fleet', '--block', block.to_s, '--fake', FAKE, '--fake-pace', (TRIAL * 1000).to_i.to_s, NODE_NAME: name)
  end
rescue ThreadError
  # No block is left.
end

def speed_up
  puts "### Speed-up: fake trials of #{TRIAL} s, two in a block, means of #{SEEDS.count} seeds", '', '| workers | time to the verdict | speed-up | blocks that count | blocks with a result besides |',
       '|--:|--:|--:|--:|--:|'
  alone = nil
  WORKERS.each do |workers|
    seconds, counted, besides = SEEDS.map { |seed| race(seed, workers) }.transpose.map { |all| all.sum.to_f / all.size }
    alone ||= seconds
    puts format('| %d | %.1f s | %.1f | %.1f | %.1f |', workers, seconds, alone / seconds, counted, besides)
  end
end

# A cluster of so many nodes for the length of a block.
class Cluster
  def self.open(fleet, nodes)
    command = [CLUSTER, "#{ROOTS}/slurm", nodes.to_s, fleet.folder, File.dirname(CARAT)]
    Open3.popen2(*command) do |input, output, waiter|
      first = output.gets.to_s[/\Aready (\d+)/, 1] or raise 'the cluster does not start'
      yield new(first)
    ensure
      input.close
      waiter.value
    end
  end

  def initialize(first)
    @first = first
  end

  def inside
    [CLUSTER, '--run', @first]
  end

  def submit(fleet, pace)
    script = Dir["#{fleet.folder}/fleet/*.sbatch"].first
    File.write(script, "#{File.read(script).chomp} --fake #{FAKE} --fake-pace #{(pace * 1000).to_i}\n")
    fleet.carat('submit', 'fleet', before: inside)
  end

  def pending?(folder)
    output, status = Open3.capture2(*inside, 'squeue', '--noheader', '--states', 'PENDING', chdir: folder)
    raise 'squeue fails' unless status.success?

    !output.empty?
  end

  # The block that a node runs, and the pids of its processes: daemon, step, carat.
  def node(name)
    daemon = pids.find { |pid| read(pid, 'cmdline') == "slurmd\0-N\0#{name}\0" }
    carat = pids.find do |pid|
      read(pid, 'cmdline').include?("\0fleet\0block\0") && read(pid, 'environ').split("\0").include?("SLURMD_NODENAME=#{name}")
    end
    # Any of them may have ended meanwhile.
    block, step = read(carat, 'environ')[/SLURM_ARRAY_TASK_ID=(\d+)/, 1], read(carat, 'stat')[/.*\) \S (\d+)/, 1] if carat
    [Integer(block), [daemon, step, carat].map { |pid| Integer(pid) }] if daemon && block && step
  end

  private

  def pids
    namespace = File.readlink("/proc/#{@first}/ns/pid")
    Dir.children('/proc').grep(/\A\d+\z/).select do |pid|
      File.readlink("/proc/#{pid}/ns/pid") == namespace
    rescue SystemCallError
      false
    end
  end

  def read(pid, file)
    File.binread("/proc/#{pid}/#{file}")
  rescue SystemCallError
    ''
  end
end

# Seconds until the block of a node that dies begins elsewhere, and until that of a node that does not answer does. Of six nodes
# four run a block, so two are free.
def lose_two_nodes
  Dir.mktmpdir do |folder|
    fleet = Fleet.new(folder, 1, '--on', 'slurm:any', '--blocks', '2')
    Cluster.open(fleet, 6) do |cluster|
      # So long that the silent node still runs its block when another takes it over.
      cluster.submit(fleet, 30)
      lost = %w[w2 w3].map do |name|
        found = nil
        seconds_until("#{name} runs a block") { (found = cluster.node(name)) && fleet.begun(found.first).positive? }
        found
      end
      (dead, killed), (silent, frozen) = lost
      Process.kill(:KILL, *killed)
      Process.kill(:STOP, *frozen)
      began = now
      again = {}
      seconds_until('both blocks begin again') do
        [dead, silent].each { |block| again[block] ||= now - began if fleet.begun(block) > 1 }
        again.size == 2
      end
      again.values_at(dead, silent)
    end
  end
end

# Seconds from the verdict until nothing is pending, and the blocks that had a result after it.
def stop_after_verdict
  Dir.mktmpdir do |folder|
    fleet = Fleet.new(folder, 1, '--on', 'slurm:any')
    Cluster.open(fleet, 3) do |cluster|
      cluster.submit(fleet, 0.5)
      watch = Thread.new { fleet.carat('watch', 'fleet', '--every', '200ms', before: cluster.inside) }
      seconds_until('there is a verdict') { fleet.stopped? }
      done = fleet.done
      seconds = seconds_until('nothing is pending') { !cluster.pending?(folder) }
      watch.value
      seconds_until('every node has ended its block') { %w[w1 w2 w3].none? { |name| cluster.node(name) } }
      [seconds, fleet.done - done]
    end
  end
end

def range(figures)
  format('%<median>.1f s (%<least>.1f to %<most>.1f)', median: median(figures), least: figures.min, most: figures.max)
end

def slurm
  puts '', "### Slurm on one machine: medians of #{RUNS} runs (least to most)", '', '| event | after |', '|---|--:|'
  dead, silent = Array.new(RUNS) { lose_two_nodes }.transpose
  seconds, more = Array.new(RUNS) { stop_after_verdict }.transpose
  puts "| a node dies: another begins its block | #{range(dead)} |", "| a node falls silent: another begins its block | #{range(silent)} |",
       "| there is a verdict: no block is pending | #{range(seconds)} |",
       "| there is a verdict: blocks that still end | #{more.min} to #{more.max} blocks |"
end

$stdout.sync = true
speed_up
if File.exist?("#{ROOTS}/slurm/.carat-recipe")
  slurm
else
  puts '', 'Slurm is not measured: there is no root; run bin/roots slurm'
end
