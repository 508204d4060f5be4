# frozen_string_literal: true

# What `carat explain` prints of a preloaded Rails app: the examples of README and docs/reference/explain.md. The blog is started with two
# workers and serves some pages; then its processes are read. Their numbers are replaced by fixed ones, so that a text can name
# them. Long lists are cut for README, with `…` in their place. Under jemalloc only what differs is printed.

require 'net/http'
require 'open3'
require 'socket'
require 'tempfile'

BLOG = File.expand_path('../workloads/blog', __dir__)
CARAT = ENV.fetch('CARAT')
PAGES = Integer(ENV.fetch('PAGES', '140'))
LATER = 40
PATIENCE = 120
# Few arenas, so that their list is short.
JEMALLOC = ARGV == %w[--allocator jemalloc]
OF_ALLOCATOR = JEMALLOC ? { 'LD_PRELOAD' => '/usr/lib/x86_64-linux-gnu/libjemalloc.so.2' } : { 'MALLOC_ARENA_MAX' => '2' }
ENVIRONMENT = { 'WORKERS' => '2', **OF_ALLOCATOR }.freeze

# The blog on Puma; it is stopped at the end.
class Blog
  attr_reader :pid

  def initialize
    @port = TCPServer.open('127.0.0.1', 0) { |server| server.addr[1] }
    environment = ENVIRONMENT.merge('PORT' => @port.to_s)
    @pid = spawn(environment, 'puma', '-C', 'puma.rb', 'config.ru', chdir: BLOG, %i[out err] => File::NULL)
  end

  def wait
    deadline = Time.now + PATIENCE
    until workers.size == 2 && page?
      raise 'the blog did not start: run bin/setup' if Time.now > deadline || Process.wait(@pid, Process::WNOHANG)

      sleep 0.2
    end
  end

  def serve(pages)
    pages.times { page? or raise 'the blog does not answer' }
  end

  def workers
    File.read("/proc/#{@pid}/task/#{@pid}/children").split.map(&:to_i)
  end

  def stop
    Process.kill(:TERM, @pid)
    Process.wait(@pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil
  end

  private

  def page?
    Net::HTTP.get_response('127.0.0.1', '/', @port).is_a?(Net::HTTPSuccess)
  rescue SystemCallError, EOFError
    false
  end
end

# What `carat explain` printed, by its sections.
class Explained
  def initialize(numbers, *arguments)
    text, error, status = Open3.capture3(CARAT, 'explain', '--details', *arguments)
    raise error unless status.success?

    @lines = numbers.reduce(text) { |found, (real, fixed)| found.gsub(/\b#{real}\b/, fixed.to_s) }.lines(chomp: true)
  end

  def ledger
    between(/\Apart +PSS/, /\Atotal /)
  end

  def process
    between(/\AProcess \d+ from outside/, /nothing was stopped or written\z/)
  end

  def malloc
    start = @lines.index { |line| line.start_with?('  malloc: ') } or raise 'no malloc'
    @lines.drop(start).take_while { |line| !line.empty? }
  end

  def owners
    start = @lines.index { |line| line.include?('have a known holder') } or raise 'no holders'
    @lines.drop(start).take_while { |line| line.start_with?('  ') && !line.end_with?('stopped or written') }
  end

  def unshared(pid = '')
    start = @lines.index { |line| line.start_with?("Why process #{pid}") } or raise 'no causes'
    @lines.drop(start).take_while { |line| !line.empty? }
  end

  # What fits README.
  def short
    summary = process.take_while { |line| !line.empty? }.grep(/\A(?:Process|  slots|  malloc|    of the free|    resident)/)
    classes = process.drop_while { |line| !line.start_with?('  class ') }.first(8)
    causes = unshared(summary.first[/\d+/])
    [*ledger, '', *summary, '', *classes, '  …', '', *causes.first(7), '  …']
  end

  private

  def between(first, last)
    from = @lines.index { |line| line.match?(first) } or raise "no line like #{first.inspect}"
    to = @lines.index { |line| line.match?(last) } or raise "no line like #{last.inspect}"
    @lines[from..to]
  end
end

def show(title, lines)
  puts title, '```', lines, '```', ''
end

def reading(pid)
  file = Tempfile.new(['reading', '.json'])
  file.write(Open3.capture2(CARAT, 'explain', pid.to_s, '--json', '--alone').first)
  file.close
  file
end

blog = Blog.new
begin
  blog.wait
  blog.serve(PAGES)
  worker = blog.workers.first
  numbers = { blog.pid => 29_316, worker => 29_390, blog.workers.last => 29_391 }
  if JEMALLOC
    show('its jemalloc', Explained.new(numbers, worker.to_s, '--alone').malloc)
    exit
  end
  tree = Explained.new(numbers, blog.pid.to_s, '--unshared')
  alone = Explained.new(numbers, worker.to_s, '--alone')
  show('the first screen', tree.short)
  show('a worker', alone.process)
  show('its holders', Explained.new(numbers, worker.to_s, '--alone', '--owners').owners)
  show('its private memory', tree.unshared)
  before = reading(worker)
  blog.serve(LATER)
  after = reading(worker)
  show('later', Open3.capture2(CARAT, 'diff', before.path, after.path, '--classes', '6').first.lines(chomp: true))
ensure
  blog.stop
end
