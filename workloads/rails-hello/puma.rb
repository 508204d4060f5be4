# frozen_string_literal: true

# One process, one thread: the app is measured, not Puma's clustering.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
threads 1, 1
workers 0
