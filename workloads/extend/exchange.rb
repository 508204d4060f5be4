# frozen_string_literal: true

# One request and its response.
class Exchange
  HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n"
  RESPONSE = "#{HEAD}\r\nhello".freeze
  LAST_RESPONSE = "#{HEAD}connection: close\r\n\r\nhello".freeze

  def initialize(socket)
    @socket = socket
  end

  # The header lines of the request, or nil if the client has closed the connection.
  def read_head
    lines = []
    while (line = @socket.gets)
      return lines if line == "\r\n"

      lines << line
    end
  end

  # Writes the response, which announces the end of the connection if it is the `last`.
  def respond(last)
    @socket.write(last ? LAST_RESPONSE : RESPONSE)
  end
end
