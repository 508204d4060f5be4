# frozen_string_literal: true

# `WORKERS=1`: the rounds run in a worker that is forked from a loaded master. `WORKERS=0`: in the only process.
bind "tcp://127.0.0.1:#{ENV.fetch('PORT', '9292')}"
environment 'production'
threads 1, 1
workers Integer(ENV.fetch('WORKERS', '0'))
preload_app!
