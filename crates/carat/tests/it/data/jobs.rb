# frozen_string_literal: true

require 'sidekiq'

# Sidekiq jobs for the tests; the environment names the files that they write.

# Lasts so many milliseconds and records its arguments.
class SleepJob
  include Sidekiq::Worker

  def perform(millis, *arguments)
    sleep(millis / 1000.0)
    File.write(ENV.fetch('DONE'), "#{arguments.join(' ')}\n", mode: 'a')
  end
end

# Fails for numbers that are a multiple of the second argument.
class FailJob
  include Sidekiq::Worker

  def perform(number, every)
    raise ArgumentError, "no order \e[31m#{number}" if (number % every).zero?
  end
end

# Records how long each job took from its push to its end.
class TrueLatency
  def call(_worker, job, _queue)
    yield
    File.write(ENV.fetch('LATENCIES'), "#{Time.now.to_f - job['enqueued_at']}\n", mode: 'a')
  end
end

Sidekiq.configure_server do |config|
  config.server_middleware { |chain| chain.add TrueLatency }
  config.on(:startup) do
    File.write(ENV.fetch('READY'), '')
    warn 'ready for jobs'
  end
end
