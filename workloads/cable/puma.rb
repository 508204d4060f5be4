# frozen_string_literal: true

# The published server: a Puma cluster of 8 workers with 0 to 16 threads each.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
workers Integer(ENV.fetch('WORKERS', '2'))
threads 0, 16
preload_app!
