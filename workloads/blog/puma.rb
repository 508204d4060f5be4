# frozen_string_literal: true

# `WORKERS=10`: load once, then fork. `WORKERS=0`: one of ten separate boots.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
threads 1, 1
workers Integer(ENV.fetch('WORKERS', '10'))
preload_app!

# A SQLite connection must not cross a fork.
before_fork { ActiveRecord::Base.connection_pool.disconnect! }
