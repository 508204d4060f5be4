# frozen_string_literal: true

# One request and its response.
class Exchange
  RESPONSE = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello"

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

  def respond
    @socket.write(RESPONSE)
  end
end
