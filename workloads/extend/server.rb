# frozen_string_literal: true

require 'socket'
require_relative 'parts'

# A toy HTTP server on one thread; `PARTS=extend,parse,journal,tally` sets what it does with each request. With `CLOSE=1`
# it closes every connection after its response, as the server of 2009 did.
class ToyServer
  def initialize(port, parts, close)
    @server = TCPServer.new('127.0.0.1', port)
    @server.listen(1024)
    @parts, @socket_parts = parts.partition { |part| part.respond_to?(:call) }
    @close = close
    @clients = []
  end

  def run
    loop do
      ready, = IO.select([@server, *@clients])
      ready.each { |io| io == @server ? accept : serve(io) }
    end
  end

  private

  def accept
    socket = @server.accept
    @socket_parts.each { |part| part.accepted(socket) }
    @clients << socket
  end

  def serve(socket)
    exchange = Exchange.new(socket)
    head = exchange.read_head or return drop(socket)
    @parts.each { |part| part.call(exchange, head) }
    exchange.respond(@close)
    drop(socket) if @close
  rescue SystemCallError
    drop(socket)
  end

  def drop(socket)
    @clients.delete(socket)
    socket.close
  end
end

trap('TERM') { exit }
ToyServer.new(Integer(ENV.fetch('PORT', '9292')), Parts.parse(ENV.fetch('PARTS', 'extend,parse,journal')),
              ENV['CLOSE'] == '1').run
