# frozen_string_literal: true

require 'socket'
require_relative 'parts'

# A toy HTTP server on one thread; `PARTS=extend,parse,journal,tally` sets what it does with each request.
class ToyServer
  def initialize(port, parts)
    @server = TCPServer.new('127.0.0.1', port)
    @parts = parts
    @clients = []
  end

  def run
    loop do
      ready, = IO.select([@server, *@clients])
      ready.each { |io| io == @server ? @clients << @server.accept : serve(io) }
    end
  end

  private

  def serve(socket)
    exchange = Exchange.new(socket)
    head = exchange.read_head or return drop(socket)
    @parts.each { |part| part.call(exchange, head) }
    exchange.respond
  rescue SystemCallError
    drop(socket)
  end

  def drop(socket)
    @clients.delete(socket)
    socket.close
  end
end

trap('TERM') { exit }
ToyServer.new(Integer(ENV.fetch('PORT', '9292')), Parts.parse(ENV.fetch('PARTS', 'extend,parse,journal'))).run
