# frozen_string_literal: true

ENV['RAILS_ENV'] = 'production'
require_relative 'database'
require_relative 'gate'

Database.prepare
require_relative 'app'
BlogApp.initialize!
Gate.wait
run BlogApp
