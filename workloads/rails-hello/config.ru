# frozen_string_literal: true

ENV['RAILS_ENV'] = 'production'
require_relative 'app'
require_relative 'plant'

Plant.grow(Integer(ENV.fetch('CARAT_PLANT_MB', '0')))
HelloApp.initialize!
run HelloApp
