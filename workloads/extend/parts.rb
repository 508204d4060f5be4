# frozen_string_literal: true

require_relative 'exchange'
require_relative 'leak'

# What the toy server does with a request, in parts that can be taken out one by one to find the one that grows.
module Parts
  # Behaviour for one exchange, added per object or to the class.
  module HttpHandler
    def respond
      super
    end
  end

  # Each decorated exchange gets a singleton class of its own: the suspect of 2009.
  class Extend
    def call(exchange, _head)
      exchange.extend(HttpHandler)
    end
  end

  # The same behaviour, given to the class once.
  class Include
    def initialize
      Exchange.prepend(HttpHandler)
    end

    def call(*); end
  end

  # Splits the header lines, as every HTTP server does.
  class Parse
    def call(_exchange, head)
      head.drop(1).to_h { |line| line.chomp.split(': ', 2) }
    end
  end

  # Keeps the last thousand request lines: grows at first and then no more.
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

  # Counts requests, and loses 16 bytes each time it does.
  class Tally
    def call(*)
      @count = @count.to_i + 1
      Leak.once
    end
  end

  ALL = { 'extend' => Extend, 'include' => Include, 'parse' => Parse, 'journal' => Journal, 'tally' => Tally }.freeze

  # Makes the parts of a list such as `extend,parse`.
  def self.parse(list)
    list.split(',').map { |name| ALL.fetch(name) { abort "unknown part #{name}: use #{ALL.keys.join(', ')}" }.new }
  end
end
