# frozen_string_literal: true

require_relative 'served'

# `WORKERS=10`: load once, then fork. `WORKERS=0`: one of ten separate boots.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
threads 1, 1
workers Integer(ENV.fetch('WORKERS', '10'))
preload_app!
queue_requests false if Served.on?

# A SQLite connection must not cross a fork.
before_fork { ActiveRecord::Base.connection_pool.disconnect! }
on_worker_boot { |number| Served.join(number) }
