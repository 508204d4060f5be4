# frozen_string_literal: true

# Growth verdicts on the bundled workloads, none of which leaks: every `linear` is wrong.
# Called by `bin/bench growth --servers`; bench/growth lists the options. Runs that the output already holds are skipped.

require 'etc'
require 'json'
require 'open3'
require 'optparse'
require 'tmpdir'

# The experiment file of one workload with two equal variants, so that it gives two runs.
class EqualVariants
  # Folder, and the keys that set the length of the load.
  WORKLOADS = {
    'hello' => ['rails-hello', ->(n) { { 'requests' => n } }],
    'blog' => ['blog', ->(n) { { 'requests' => n } }],
    # One step, so that the number of connections stays the same. A request is a broadcast, or a job.
    'cable' => ['cable', ->(n) { { 'steps' => 1, 'step_size' => 50, 'broadcasts' => n } }],
    'replicator' => ['replicator', ->(n) { { 'jobs' => n } }]
  }.freeze
  VARIANTS = %w[one two].freeze

  def initialize(server, requests)
    folder, length = WORKLOADS.fetch(server)
    @folder = File.expand_path("../workloads/#{folder}", __dir__)
    @length = length.call(requests)
  end

  # The workload's own file up to its variants, with another length, and folders that hold elsewhere.
  def to_s
    head = File.read("#{@folder}/carat.toml").split(/^\[\[variant\]\]/).first
    head = head.gsub(/^\[(server|services\.\w+)\]$/) { "#{_1}\ndir = #{@folder.to_json}" }
    @length.each { |key, value| head.sub!(/^#{key} = \S+$/, "#{key} = #{value}") or abort "error: #{@folder}/carat.toml has no #{key}" }
    variants = VARIANTS.map { |name| "[[variant]]\nname = \"#{name}\"\n" }
    "#{head}#{variants.join("\n")}\n[measure]\nprimary = \"memory.pss.final\"\nsample_every = \"100ms\"\n" \
      "\n[trials]\nmax = 1\nmargin = \"1%\"\nwarmup_block = false\n"
  end
end

# The output: all runs so far, and the table that they give.
class KeptRuns
  COLUMNS = ['server', 'machine', 'requests', 'runs', 'linear', 'flat, levelling off, one step', 'undecided', 'failed',
             'highest lower limit of the memory, B per request'].freeze
  RULER = ['---', '---', '--:', '--:', '--:', '--:', '--:', '--:', '--:'].freeze

  def initialize(path)
    @path = path
    @runs = File.exist?(path) ? JSON.parse(File.read(path)).fetch('runs') : []
  end

  def count(cell)
    @runs.count { |run| cell.all? { |key, value| run[key] == value } }
  end

  def add(runs)
    @runs.concat(runs)
    part = "#{@path}.part"
    File.write(part, JSON.pretty_generate(to_h))
    File.rename(part, @path)
  end

  def table
    [COLUMNS, RULER, *rows].map { |cells| "| #{cells.join(' | ')} |" }
  end

  private

  def to_h
    run = { name: 'growth', command: "bin/bench growth #{ARGUMENTS.join(' ')}", date: Time.now.utc.strftime('%Y-%m-%d'), commit: COMMIT }
    tables = [{ title: 'Growth verdicts on servers that do not leak', columns: COLUMNS, ruler: RULER, rows: rows }]
    { schema: 'carat.measurement/1', run: run, machine: machine, tables: tables, notes: [], runs: @runs }
  end

  def machine
    processor = File.read('/proc/cpuinfo')[/^model name\s*:\s*(.*)/, 1]
    { cores: Etc.nprocessors.to_s, processor: processor, kernel: File.read('/proc/sys/kernel/osrelease').strip, ruby: RUBY_DESCRIPTION }.compact
  end

  def rows
    groups = @runs.group_by { |run| run.values_at('server', 'machine', 'requests') }
    groups.sort.map { |cell, runs| [*cell, runs.size, *classes(runs), highest(runs)].map(&:to_s) }
  end

  # A run is linear if any of its parts is: a report would name that part.
  def classes(runs)
    failed, ended = runs.partition { |run| run['failure'] }
    linear, others = ended.partition { |run| run['parts'].any? { |part| part['kind'] == 'linear' } }
    undecided = others.count { |run| memory(run).nil? || memory(run)['kind'] == 'undecided' }
    [linear.size, others.size - undecided, undecided, failed.size]
  end

  # How close the runs came to a false claim, whatever they lacked.
  def highest(runs)
    limits = runs.filter_map { |run| memory(run)&.dig('interval', 0) }
    limits.empty? ? 'unknown' : format('%.1f', limits.max)
  end

  def memory(run)
    run['parts'].find { |part| part['part'] == 'memory' }
  end
end

# Runs cell after cell until each has its number of runs.
class ServerRuns
  def initialize(options)
    @options = options
    @kept = KeptRuns.new(options[:output])
  end

  def run
    @options[:busy] ? beside_hogs { cells } : cells
    puts @kept.table
  end

  private

  # Two processes of lower priority that always want a core.
  def beside_hogs
    hogs = Array.new(2) { spawn('nice', '-n', '10', 'ruby', '-e', 'loop {}') }
    yield
  ensure
    hogs&.each { |pid| Process.kill('KILL', pid) && Process.wait(pid) }
  end

  def cells
    @options[:requests].product(@options[:servers]).each do |requests, server|
      cell = { 'server' => server, 'machine' => @options[:busy] ? 'busy' : 'quiet', 'requests' => requests }
      fill(cell, @kept.count(cell))
    end
  end

  def fill(cell, have)
    while have < @options[:runs]
      started = Time.now
      runs = two_runs(cell).first(@options[:runs] - have)
      @kept.add(runs)
      have += runs.size
      kinds = runs.map { |run| run['failure'] || memory_kind(run) }
      warn format('%s: %d of %d runs; memory %s; %d s', cell.values.join(', '), have, @options[:runs], kinds.join(', '), Time.now - started)
    end
  end

  # Without two samples there is no growth of memory at all.
  def memory_kind(run)
    run['parts'].find { |part| part['part'] == 'memory' }&.fetch('kind') || 'undecided'
  end

  def two_runs(cell)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/growth.toml", EqualVariants.new(cell['server'], cell['requests']).to_s)
      output, error, status = Open3.capture3(ENV.fetch('CARAT'), 'compare', "#{folder}/growth.toml", '--json', '-o', "#{folder}/growth.carat")
      # 0 is decided, 3 is undecided, 4 is a load that was invalid; every other code is an error of the benchmark itself.
      abort "error: carat compare: #{error}" unless [0, 3, 4].include?(status.exitstatus)
      results = JSON.parse(output).fetch('results')
      EqualVariants::VARIANTS.map { |name| cell.merge(run_of(results, name)) }
    end
  end

  def run_of(results, name)
    growth = results['growth'].find { |one| one['variant'] == name }
    trial = results['trials'].find { |one| one['variant'] == name }
    outcome = trial ? trial.fetch('outcome') : 'no trial'
    failure = [outcome, trial&.fetch('detail')].compact.join(': ') unless outcome == 'ok'
    { 'at' => Time.now.utc.strftime('%FT%TZ'), 'commit' => COMMIT, 'failure' => failure, 'parts' => growth ? growth['parts'] : [] }
  end
end

options = { servers: EqualVariants::WORKLOADS.keys, runs: 10, requests: [3000, 30_000], busy: false, output: 'target/growth-servers.json' }
ARGUMENTS = ARGV.dup.freeze
COMMIT = IO.popen(%w[git rev-parse HEAD], &:read).strip + (`git status --porcelain --untracked-files=no`.empty? ? '' : ' with changes')
OptionParser.new do |parser|
  parser.on('--servers [LIST]', Array) { |list| options[:servers] = list if list }
  parser.on('--runs N', Integer) { |runs| options[:runs] = runs }
  parser.on('--requests LIST', Array) { |list| options[:requests] = list.map { |number| Integer(number.delete('_')) } }
  parser.on('--busy') { options[:busy] = true }
  parser.on('--output FILE') { |path| options[:output] = path }
end.parse!
unknown = options[:servers] - EqualVariants::WORKLOADS.keys
abort "error: no server is called #{unknown.join(', ')}; there are #{EqualVariants::WORKLOADS.keys.join(', ')}" if unknown.any?
ServerRuns.new(options).run
