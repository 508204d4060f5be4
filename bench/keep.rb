# frozen_string_literal: true

# Keeps what a benchmark printed, so that `bin/docs` can quote it: reads its output from standard input and prints JSON.
#   ruby bench/keep.rb NAME COMMAND < OUTPUT > docs/evidence/measurements/NAME.json
# Kept are every Markdown table and every list of JSON objects, every text between ``` lines, and the other lines as notes; with
# the command, the date, the commit, the machine and the Ruby.

require 'etc'
require 'json'
require 'time'

# Code on which alone the output of a benchmark depends.
CODE = { 'stats' => 'crates/carat-stats' }.freeze

# Turns the lines of a benchmark into tables.
class Measurement
  def initialize(name, lines)
    @title = name
    @tables = []
    @outputs = []
    @notes = []
    rest = take_outputs(lines)
    rest.chunk_while { |one, other| kind(one) == kind(other) }.each { |part| add(kind(part.first), part) }
  end

  def to_h
    outputs = @outputs.empty? ? {} : { outputs: @outputs }
    { tables: @tables, **outputs, notes: @notes }
  end

  def empty?
    @tables.empty? && @outputs.empty?
  end

  private

  # The line before a text is its title. Returns the lines that belong to none.
  def take_outputs(lines)
    rest = []
    until lines.empty?
      line, *lines = lines
      next rest << line unless line == '```'

      output = lines.take_while { |inside| inside != '```' }
      lines = lines.drop(output.size + 1)
      @outputs << { title: rest.last.to_s.strip, lines: output }
    end
    rest
  end

  def kind(line)
    case line
    when /\A\|/ then :table
    when /\A\{.*\}\s*\z/ then :objects
    else :text
    end
  end

  def add(kind, lines)
    case kind
    when :table then add_table(lines.map { |line| line.strip.delete_prefix('|').delete_suffix('|').split('|', -1).map(&:strip) })
    when :objects then add_objects(lines.map { |line| JSON.parse(line) })
    else add_text(lines)
    end
  end

  def add_table((columns, ruler, *rows))
    @tables << { title: @title, columns: columns, ruler: ruler, rows: rows }
  end

  def add_objects(objects)
    columns = objects.flat_map(&:keys).uniq
    rows = objects.map { |object| object.values_at(*columns).map(&:to_s) }
    @tables << { title: @title, columns: columns, ruler: columns.map { '---' }, rows: rows }
  end

  # The last line before a table is its title.
  def add_text(lines)
    lines = lines.map(&:strip).reject(&:empty?)
    @title = lines.last.gsub(/\A[#*]+\s*|\*+\z/, '') if lines.any?
    @notes.concat(lines)
  end
end

def git(*arguments)
  IO.popen(['git', *arguments], &:read).strip
end

# The commit that was measured, and whether there were changes beside it.
def commit
  git('status', '--porcelain', '--untracked-files=no').empty? ? git('rev-parse', 'HEAD') : "#{git('rev-parse', 'HEAD')} with changes"
end

def machine
  processor = File.read('/proc/cpuinfo')[/^model name\s*:\s*(.*)/, 1]
  { cores: Etc.nprocessors.to_s, processor: processor, kernel: File.read('/proc/sys/kernel/osrelease').strip, ruby: RUBY_DESCRIPTION }.compact
end

name, command = ARGV
abort 'usage: keep.rb NAME COMMAND < OUTPUT' unless command
measured = Measurement.new(name, $stdin.readlines(chomp: true))
abort "error: #{command} printed neither a table nor a text" if measured.empty?
code = CODE[name]
run = { name: name, command: command, date: Time.now.utc.strftime('%Y-%m-%d'), commit: commit }
run.update(code: code, tree: git('rev-parse', "HEAD:#{code}")) if code
puts JSON.pretty_generate({ schema: 'carat.measurement/1', run: run, machine: machine, **measured.to_h })
