# frozen_string_literal: true

require_relative 'exchange'
require_relative 'leak'

# The parts of the toy server, which can be removed one by one to find the one that grows.
module Parts
  # A method that is added per object or to the class.
  module HttpHandler
    def respond(last)
      super
    end
  end

  # The same for a socket.
  module SocketHandler
    def write(bytes)
      super
    end
  end

  # Each extended exchange gets its own singleton class, which was suspected of the leak in 2009.
  class Extend
    def call(exchange, _head)
      exchange.extend(HttpHandler)
    end
  end

  # The same method, added to the class once.
  class Include
    def initialize
      Exchange.prepend(HttpHandler)
    end

    def call(*); end
  end

  # Each accepted socket gets its own singleton class, as in 2009.
  class ExtendSocket
    def accepted(socket)
      socket.extend(SocketHandler)
    end
  end

  # The same method, added to the class of the sockets once.
  class IncludeSocket
    def initialize
      TCPSocket.include(SocketHandler)
    end

    def accepted(_socket); end
  end

  # Splits the header lines, as every HTTP server does.
  class Parse
    def call(_exchange, head)
      head.drop(1).to_h { |line| line.chomp.split(': ', 2) }
    end
  end

  # Keeps the last thousand request lines: grows at first, then levels off.
  class Journal
    LINES = 1000

    def initialize
      @lines = []
    end

    def call(_exchange, head)
      @lines << "#{Process.clock_gettime(Process::CLOCK_REALTIME)} #{head.first}"
      @lines.shift if @lines.size > LINES
    end
  end

  # Counts requests, and leaks 16 bytes for each.
  class Tally
    def call(*)
      @count = @count.to_i + 1
      Leak.once
    end
  end

  ALL = { 'extend' => Extend, 'include' => Include, 'extend-socket' => ExtendSocket, 'include-socket' => IncludeSocket,
          'parse' => Parse, 'journal' => Journal, 'tally' => Tally }.freeze

  # The parts of a list such as `extend,parse`.
  def self.parse(list)
    list.split(',').map { |name| ALL.fetch(name) { abort "unknown part #{name}: use #{ALL.keys.join(', ')}" }.new }
  end
end
