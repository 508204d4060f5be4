# frozen_string_literal: true

require 'action_controller/railtie'

# The smallest Rails app: Action Pack, one route, one static string.
class HelloApp < Rails::Application
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.root = __dir__
  config.eager_load = true
  config.consider_all_requests_local = false
  config.logger = Logger.new(File::NULL)
  config.secret_key_base = 'not a secret: this app has no sessions'
  config.hosts.clear
  config.active_support.deprecation = :silence
  # The published intervention, written into the app: `compact` or, as its control, `start`.
  by_hand = ENV.fetch('GC_BY_HAND', nil)
  config.after_initialize { GC.public_send(by_hand) } if by_hand

  # Answers the one route.
  class HelloController < ActionController::Base
    def show
      render plain: 'Hello from Rails'
    end
  end

  routes.append { get '/hello', to: 'hello_app/hello#show' }
end
