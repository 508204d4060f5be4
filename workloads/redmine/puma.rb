# frozen_string_literal: true

# Debian's Redmine as a preloaded cluster: it is loaded once, then `WORKERS` processes are forked.
directory '/usr/share/redmine'
environment 'production'
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
workers Integer(ENV.fetch('WORKERS', '2'))
threads 5, 5
preload_app!

# A connection to PostgreSQL must not cross a fork.
before_fork { ActiveRecord::Base.connection_pool.disconnect! }
