# frozen_string_literal: true

require_relative 'programs'

Integer(ARGV.fetch(0, '100')).times { Programs.growarray }
