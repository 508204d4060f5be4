# frozen_string_literal: true

require 'socket'

# Serves HTTP/1.1 on PORT, or on a free port, which it prints: one thread per connection, one answer at a time.
class SmallServer
  def initialize(env)
    @env = env
    @lock = Mutex.new
  end

  def run
    listener = TCPServer.new('127.0.0.1', Integer(@env.fetch('PORT', '0')))
    $stdout.puts(listener.addr[1])
    $stdout.flush
    trap('TERM') { exit!(0) }
    loop { Thread.new(listener.accept) { |socket| serve(socket) } }
  end

  private

  # Names of headers are in small letters.
  def serve(socket)
    while (line = socket.gets)
      method, target, = line.split
      headers = {}
      while (header = socket.gets.chomp) != ''
        name, value = header.split(': ', 2)
        headers[name.downcase] = value
      end
      body = socket.read(headers.fetch('content-length', '0').to_i)
      socket.write(@lock.synchronize { answer(method, target, headers, body) })
    end
  rescue SystemCallError
    socket.close
  end

  def reply(status, body, headers = [])
    lines = ["HTTP/1.1 #{status} X", "Content-Length: #{body.bytesize}", *headers]
    "#{lines.join("\r\n")}\r\n\r\n#{body}"
  end
end
