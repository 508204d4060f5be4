# frozen_string_literal: true

# What the Sidekiq process loads.
require_relative 'job'

Database.open
