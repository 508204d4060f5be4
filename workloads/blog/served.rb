# frozen_string_literal: true

require 'json'

# Makes every instance serve the same number of pages: one that has served more than the slowest waits before it accepts
# the next connection.
#
# Without this the kernel distributes the connections as it likes, and memory per instance is that of instances at
# different ages. `SERVED` names the file of the counters; without it nothing is counted. Needs one thread per instance,
# no keep-alive and `queue_requests false`: Puma then accepts a connection only while its thread is free. Puma 8 does not
# wait for its thread before it accepts, so it is refused.
class Served
  BYTES = 8
  # Seconds between two looks at the counters.
  PAUSE = 0.003
  # Seconds after which an instance that ended is no longer waited for.
  GIVE_UP = 30
  # After so many pages the counters are written to the log, which Carat keeps with the trial.
  MARKS = [50, 500, 5000].freeze
  HEAD = { 'content-type' => 'text/plain' }.freeze

  class << self
    def on?
      ENV.key?('SERVED')
    end

    # Takes the place of this process among the instances. A forked worker calls it after the fork.
    def join(number)
      return unless on?

      @instances = Integer(ENV.fetch('INSTANCES'))
      @number = number
      @file = File.open(ENV.fetch('SERVED'), File::RDWR | File::CREAT)
      @buffer = String.new(capacity: @instances * BYTES)
      @pages = -1
      count
    end

    # Counts a page. A place that holds zero is not taken yet, so the file has one more than the pages.
    def count
      @pages += 1
      @file.pwrite([@pages + 1].pack('Q<'), @number * BYTES)
    end

    # Pages of every instance that has joined.
    def pages
      counters.reject(&:zero?).map { |counter| counter - 1 }
    end

    def all_joined?
      slowest >= 0
    end

    # Returns when every instance has served as many pages as this one.
    def wait
      deadline = now + GIVE_UP
      until slowest >= @pages
        return warn("instance #{@number} waited #{GIVE_UP} s for the others: #{pages}") if now > deadline

        sleep PAUSE
      end
      warn "pages of every instance: #{pages}" if @number.zero? && MARKS.include?(@pages)
    end

    private

    # Pages of the slowest instance, -1 until all have joined.
    def slowest
      found = counters
      found.size == @instances ? found.min - 1 : -1
    end

    def counters
      @file.pread(@instances * BYTES, 0, @buffer).unpack('Q<*')
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  def initialize(app)
    unless Puma::ThreadPool.method_defined?(:wait_until_not_full)
      raise "Puma #{Puma::Const::VERSION} accepts connections while its thread is busy, so instances cannot serve the same " \
            'number of pages; use Puma 4 to 6 or unset SERVED'
    end

    @app = app
  end

  def call(env)
    case env['PATH_INFO']
    when '/ready' then Served.all_joined? ? [200, HEAD, ['ready']] : [503, HEAD, ['not all instances have booted']]
    when '/served' then [200, HEAD, [JSON.generate(Served.pages)]]
    else serve(env)
    end
  end

  private

  # Puma calls `rack.after_reply` on the same thread, so the wait delays no response.
  def serve(env)
    response = @app.call(env)
    Served.count
    env['rack.after_reply'] << Served.method(:wait)
    response
  end
end
