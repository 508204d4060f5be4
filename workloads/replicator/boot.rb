# frozen_string_literal: true

# Loaded by the Sidekiq process.
require_relative 'job'

# Some versions of the gems redis and sidekiq together print a warning for every job, with its call stack.
Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=)

Database.open

# To stderr, because the log of every job goes to stdout.
Sidekiq.configure_server { |config| config.on(:startup) { warn 'ready for jobs' } }
