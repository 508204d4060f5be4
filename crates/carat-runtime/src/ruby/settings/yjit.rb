# frozen_string_literal: true

module CaratRuntime
  # Enables Ruby's compiler in each worker, or keeps it off.
  class Yjit < Setting
    named "yjit"

    # Prepended to the singleton class of RubyVM::YJIT. `enable` returns false where it does nothing.
    module Off
      def enable(*, **)
        false
      end
    end

    def start
      return keep_off if value == "off"
      return if value != "after-fork" || defined?(RubyVM::YJIT.enable)

      @refused = true
      refuse("this Ruby was built without YJIT")
    end

    # Rails 7.2 and later enable it when they have initialized the application, so before a preloaded server forks.
    def before_fork
      refuse_early if value == "after-fork" && !@refused && !@enabled && RubyVM::YJIT.enabled?
    end

    # `enable` returns false where it does nothing. What a worker forks has the compiler from it.
    def in_child
      return if value != "after-fork" || @refused

      @enabled ||= RubyVM::YJIT.enable && RubyVM::YJIT.enabled?
      @enabled || refuse_early
    end

    def forks?
      value == "after-fork"
    end

    private

    def keep_off
      return needless unless defined?(RubyVM::YJIT.enabled?)

      if RubyVM::YJIT.enabled?
        return refuse("RUBYOPT, RUBY_YJIT_ENABLE or an option of the command has enabled YJIT before the runtime starts")
      end

      # Before Ruby 3.3 it cannot be enabled later.
      RubyVM::YJIT.singleton_class.prepend(Off) if RubyVM::YJIT.respond_to?(:enable)
      true
    end

    def refuse_early
      @refused = true
      refuse("YJIT is enabled before the fork; in a Rails application `config.yjit = false` leaves it off until then")
    end
  end

  # An option of YJIT, which Ruby has read from RUBYOPT before this library is loaded.
  class YjitOption < Setting
    def start
      return refuse("this Ruby was built without YJIT") unless defined?(RubyVM::YJIT.enabled?)
      return refuse("RUBYOPT has no #{option}") unless ENV["RUBYOPT"].to_s.split.include?(option)

      # `--yjit-disable`, without which the option would enable YJIT, also outdoes what the command says.
      RubyVM::YJIT.enable if enabled_by_command? && !RubyVM::YJIT.enabled?
      true
    end

    private

    def enabled_by_command?
      File.binread("/proc/self/cmdline").split("\0").any? { |word| %w[--yjit --jit --enable=yjit].include?(word) }
    rescue SystemCallError
      false
    end
  end
end
