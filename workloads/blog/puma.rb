# frozen_string_literal: true

require_relative 'served'

# `WORKERS=10`: load once, then fork. `WORKERS=0`: one of ten separate boots. `FORK_WORKER=1000`: after so many requests the
# workers are forked again, from the first of them. `NAKAYOSHI_FORK=1`: Puma 5 collects and compacts before it forks.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
threads(*[Integer(ENV.fetch('THREADS', '1'))] * 2)
workers Integer(ENV.fetch('WORKERS', '10'))
preload_app! !ENV.key?('FORK_WORKER')
queue_requests false if Served.on?

# A SQLite connection must not cross a fork.
before_fork { ActiveRecord::Base.connection_pool.disconnect! }
if ENV.key?('FORK_WORKER')
  fork_worker Integer(ENV.fetch('FORK_WORKER'))
  on_refork { ActiveRecord::Base.connection_pool.disconnect! }
end
nakayoshi_fork if ENV.key?('NAKAYOSHI_FORK')
on_worker_boot { |number| Served.join(number) }
