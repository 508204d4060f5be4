# frozen_string_literal: true

# A server with planted effects: A saves 10 MB, B 5 MB together with A, C 20 MB at the price of answers that take `SLOWER` times
# as long, D fails, E does nothing.
require 'socket'

# Seconds of an answer, far beyond what a scheduler adds to it, so that the p95 is that of the knobs.
PAUSE = 0.08

def on?(knob)
  ENV[knob] == '1'
end

abort 'D is on' if on?('D')
megabytes = 60
megabytes -= 10 if on?('A')
megabytes -= 5 if on?('A') && on?('B')
megabytes -= 20 if on?('C')
BALLAST = 'x' * (megabytes << 20)
SECONDS = PAUSE * (on?('C') ? Float(ENV.fetch('SLOWER')) : 1)
BODY = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

def serve(client)
  while (line = client.gets)
    next unless line == "\r\n"

    sleep SECONDS
    client.write(BODY)
  end
rescue SystemCallError, IOError
  nil
ensure
  client.close
end

server = TCPServer.new('127.0.0.1', Integer(ENV.fetch('PORT')))
loop { Thread.new(server.accept) { |client| serve(client) } }
