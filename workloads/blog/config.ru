# frozen_string_literal: true

ENV['RAILS_ENV'] = 'production'
require_relative 'database'
require_relative 'gate'
require_relative 'served'
require_relative 'full_collection'

Database.prepare
require_relative 'app'
BlogApp.initialize!
Served.join(Integer(ENV.fetch('INSTANCE'))) if ENV.key?('INSTANCE')
Gate.wait
use Served if Served.on?
use FullCollection if FullCollection.on?
run BlogApp
