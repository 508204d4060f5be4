# frozen_string_literal: true

# The source of every job's data: a local HTTP server that responds slowly; the number in the path selects the response.
require 'json'
require 'socket'

# Serves `GET /N`: the same N always gets the same bytes after the same delay, so that trials do equal work.
class Source
  SLOWEST = Float(ENV.fetch('SOURCE_LATENCY_MS', '40')) / 1000
  LARGEST_ROWS = 400

  def initialize(port)
    @server = TCPServer.new('127.0.0.1', port)
  end

  def run
    loop { Thread.new(@server.accept) { |socket| answer(socket) } }
  end

  private

  def answer(socket)
    number = Integer(socket.gets[%r{/(\d+)}, 1])
    nil until socket.gets == "\r\n"
    random = Random.new(number)
    body = rows(random)
    sleep(SLOWEST * random.rand)
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n", body)
  rescue SystemCallError, TypeError, NoMethodError
    nil # the client closed the connection or did not send HTTP
  ensure
    socket.close
  end

  def rows(random)
    JSON.generate(Array.new(1 + random.rand(LARGEST_ROWS)) { |row| { id: row, text: random.bytes(random.rand(200)).unpack1('H*') } })
  end
end

Source.new(Integer(ENV.fetch('PORT'))).run if $PROGRAM_NAME == __FILE__
