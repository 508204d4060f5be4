# frozen_string_literal: true

require 'socket'

# Answers every request and writes it to a file: method, target, body, and the headers that a replay may or may not send.
class RequestServer
  HEADERS = %w[accept cookie authorization x-tenant].freeze

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

  def serve(socket)
    while (line = socket.gets)
      method, target, = line.split
      headers = {}
      while (header = socket.gets.chomp) != ''
        name, value = header.split(': ', 2)
        headers[name.downcase] = value
      end
      body = socket.read(headers.fetch('content-length', '0').to_i)
      write([method, target, body, *HEADERS.filter_map { |name| "#{name}=#{headers[name]}" if headers[name] }])
      socket.write(answer(method, target, headers))
    end
  rescue SystemCallError
    socket.close
  end

  def write(parts)
    file = @env['REQUESTS']
    @lock.synchronize { File.open(file, 'a') { |io| io.puts(parts.join(' ').squeeze(' ')) } } if file
  end

  def answer(method, target, headers)
    status, body =
      case target
      when %r{\A/missing} then [404, 'nothing here']
      when %r{\A/echo} then [500, "cookie #{headers['cookie']} authorization #{headers['authorization']}"]
      else [200, 'ok']
      end
    "HTTP/1.1 #{status} X\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body unless method == 'HEAD'}"
  end
end

RequestServer.new(ENV).run
