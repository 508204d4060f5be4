# frozen_string_literal: true

ENV['RAILS_ENV'] = 'production'
require_relative 'app'

CableApp.initialize!
run CableApp
