# frozen_string_literal: true

# Debian's Redmine as a preloaded cluster: it is loaded once, then `WORKERS` processes are forked. `FORK_WORKER=300`: after so
# many requests they are forked again, from the first of them. `WARMUP_BY_HAND=1`: the one line of Ruby 3.3 for an app that is about to fork.
directory '/usr/share/redmine'
environment 'production'
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
workers Integer(ENV.fetch('WORKERS', '2'))
threads(*[Integer(ENV.fetch('THREADS', '5'))] * 2)
preload_app! !ENV.key?('FORK_WORKER')

# A connection to PostgreSQL must not cross a fork.
before_fork { ActiveRecord::Base.connection_pool.disconnect! }
before_fork { Process.warmup } if ENV.key?('WARMUP_BY_HAND')
if ENV.key?('FORK_WORKER')
  fork_worker Integer(ENV.fetch('FORK_WORKER'))
  on_refork { ActiveRecord::Base.connection_pool.disconnect! }
end
