# frozen_string_literal: true

require 'active_record/railtie'
require 'action_controller/railtie'
require 'action_view/railtie'
require_relative 'almanac'

# A blog whose front page is never cached, so every request runs the controller, the query and the template.
class BlogApp < Rails::Application
  config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
  config.root = __dir__
  config.eager_load = true
  config.logger = Logger.new(File::NULL)
  config.secret_key_base = 'not a secret: this app has no sessions'
  config.hosts.clear
  config.active_support.deprecation = :silence
  config.action_controller.perform_caching = false

  routes.append { root to: 'posts#index' }

  config.after_initialize { Almanac.load(Integer(ENV.fetch('BOOT_MB', '0'))) }
  # The published intervention, written into the app: `compact` or, as its control, `start`.
  by_hand = ENV.fetch('GC_BY_HAND', nil)
  config.after_initialize { GC.public_send(by_hand) } if by_hand
  # The one line of Ruby 3.3 for an app that is about to fork.
  config.after_initialize { Process.warmup } if ENV.key?('WARMUP_BY_HAND')
end

require_relative 'models'

# Serves the front page.
class PostsController < ActionController::Base
  prepend_view_path File.join(__dir__, 'views')

  def index
    @posts = Post.newest.includes(:comments)
  end
end
