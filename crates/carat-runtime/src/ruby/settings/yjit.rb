# frozen_string_literal: true

module CaratRuntime
  # Enables Ruby's compiler in each worker.
  class Yjit < Setting
    named "yjit"

    def start
      return if value != "after-fork" || defined?(RubyVM::YJIT.enable)

      @refused = true
      refuse("this Ruby was built without YJIT")
    end

    # Rails 7.2 and later enable it when they have initialized the application, so before a preloaded server forks.
    def before_fork
      refuse_early if value == "after-fork" && !@refused && RubyVM::YJIT.enabled?
    end

    # `enable` returns false where it does nothing.
    def in_child
      return if value != "after-fork" || @refused

      RubyVM::YJIT.enable && RubyVM::YJIT.enabled? ? true : refuse_early
    end

    def forks?
      value == "after-fork"
    end

    private

    def refuse_early
      @refused = true
      refuse("YJIT is enabled before the fork; in a Rails application `config.yjit = false` leaves it off until then")
    end
  end
end
