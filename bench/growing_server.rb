# frozen_string_literal: true

require 'fiddle'
require 'socket'

# A server on one thread that grows in a known way: `PORT=… ruby growing_server.rb leak|objects|strings|cache|flat|compile|compile_and_leak|compile_then_leak`.
class GrowingServer
  RESPONSE = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"
  # Entries of the full cache; it fills as 1 - exp(-requests / ENTRIES).
  ENTRIES = 15_000

  # Short-lived objects per request; without garbage Ruby would hardly collect.
  GARBAGE = 60

  # Requests from one method that is compiled to the next, and the calls that make YJIT compile it.
  COMPILES = 10
  CALLS = 31
  METHODS = 4_000

  def initialize(port, mode)
    @server = TCPServer.new('127.0.0.1', port)
    @mode = method(mode)
    @requests = 0
    define_methods if mode.start_with?('compile')
    compile_all if mode == 'compile_then_leak'
    @clients = []
    @kept = []
    @cache = {}
  end

  def run
    loop do
      ready, = IO.select([@server, *@clients])
      ready.each { |io| io == @server ? @clients << @server.accept : serve(io) }
    end
  end

  private

  # 16 bytes from malloc that are never freed; glibc uses 32 for them, jemalloc 16.
  def leak = Fiddle.malloc(16)

  # One object of 40 bytes, kept.
  def objects = @kept << Object.new

  # One string of 2 kB, kept.
  def strings = @kept << 'x' * 2000

  # Up to 15,000 strings of 600 bytes: at most 10 MB.
  def cache = @cache[rand(ENTRIES)] ||= 'x' * 600

  def flat = nil

  # YJIT is enabled late, and then compiles another method on every 10th request: growth that ends.
  def compile
    @requests += 1
    RubyVM::YJIT.enable if @requests == 200
    number = @requests / COMPILES
    CALLS.times { send("method#{number % METHODS}", 1) } if (@requests % COMPILES).zero?
  end

  # The same, and 1 kB that is kept on each request.
  def compile_and_leak
    compile
    @kept << 'x' * 1000
  end

  # YJIT has compiled every method before the first answer; then 240 bytes from malloc are never freed, for which glibc uses 256.
  def compile_then_leak = Fiddle.malloc(240)

  def compile_all
    RubyVM::YJIT.enable
    METHODS.times { |n| CALLS.times { send("method#{n}", 1) } }
  end

  def define_methods
    METHODS.times do |n|
      self.class.class_eval("def method#{n}(a) = [a, #{n}, a.to_s.size].map { |v| v.hash ^ #{n} }.select(&:odd?).sum", __FILE__, __LINE__)
    end
  end

  def serve(socket)
    line = socket.gets
    line = socket.gets while line && line != "\r\n"
    return drop(socket) unless line

    GARBAGE.times { Object.new }
    @mode.call
    socket.write(RESPONSE)
  rescue SystemCallError
    drop(socket)
  end

  def drop(socket)
    @clients.delete(socket)
    socket.close
  end
end

trap('TERM') { exit }
GrowingServer.new(Integer(ENV.fetch('PORT')), ARGV.fetch(0)).run
