# frozen_string_literal: true

# Loaded by the Sidekiq process.
require_relative 'job'

Database.open
