# frozen_string_literal: true

require 'action_controller/railtie'
require 'action_cable/engine'
require 'redis'

$LOAD_PATH.unshift File.join(__dir__, 'lib')

# Action Cable with one channel and nothing else; `CABLE_ADAPTER=any_cable` broadcasts through AnyCable.
class CableApp < Rails::Application
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.root = __dir__
  config.eager_load = true
  config.logger = Logger.new(File::NULL)
  config.log_level = :warn
  config.secret_key_base = 'not a secret: this app has no sessions'
  config.hosts.clear
  config.active_support.deprecation = :silence
  config.action_cable.disable_request_forgery_protection = true
  config.action_cable.cable = {
    'adapter' => ENV.fetch('CABLE_ADAPTER', 'redis'),
    'url' => ENV.fetch('REDIS_URL', 'redis://127.0.0.1:6379')
  }

  routes.append do
    get '/health', to: ->(_env) { [200, { 'content-type' => 'text/plain' }, ['ok']] }
    post '/_anycable/:command', to: BenchmarkRpc, command: /connect|disconnect|command/
  end
end

require_relative 'lib/benchmark_channel'
require_relative 'lib/benchmark_rpc'
