# frozen_string_literal: true

module CaratRuntime
  # Runs the actions of the settings once when this process has booted, on its main thread and without a thread of its
  # own, which would leave a malloc arena behind. A Rails application has booted when the last of its `after_initialize`
  # blocks has run: before it loads its routes, and before the server listens. A collection there saves what the same
  # line in an `after_initialize` block saves; when `initialize!` has ended, it saves nothing on the smallest
  # application (docs/evidence/experiments/2-compaction.md). For any other process a timer asks BootWatch.
  module Boot
    # A real-time signal that neither Ruby nor a C library uses. The handler stays when the timer has ended.
    SIGNAL = 44

    # Prepended to Rails::Application.
    module RailsHook
      def initialize!(*arguments)
        Boot.stop_timer
        result = super
        Boot.rails_initialized
        result
      end
    end

    # Prepended to the singleton class of ActiveSupport.
    module LoadHooksHook
      def run_load_hooks(name, *arguments)
        result = super
        Boot.rails_initialized if name == :after_initialize
        result
      end
    end

    # nil, then :loaded, then :initialized.
    @rails = nil
    @pending = false

    class << self
      def start(expecting: 0)
        @pending = true
        await_rails unless @rails
        start_timer(BootWatch.new(expecting: expecting))
      end

      # A server that preloads acts before it forks, because a later action would write to shared pages.
      def before_fork
        act if @pending && CaratRuntime.listening == 1
      end

      # A worker of a server without preloading loads the application itself, after its parent has listened.
      def in_child
        start(expecting: @listened ? BootWatch::OWN_APPLICATION : 0)
      end

      def reached
        return unless @pending

        stop
        @listened = true
        CaratRuntime.booted
      end

      def rails_initialized
        @rails = :initialized
        reached
      end

      def stop_timer
        @watch = nil
        CaratRuntime.stop_ticks
      end

      private

      # Nothing is done to a server that leaves its application to its workers: each of them acts when it has booted.
      def act
        return if Application.loading?
        return reached unless Application.missing?

        @listened = true
        stop_timer
      end

      def stop
        @pending = false
        stop_timer
        @loads&.disable
        @loads = nil
      end

      # Loading a file is rare enough to look for the class each time, and unlike other trace points this event leaves
      # compiled code as it is.
      def await_rails
        @loads ||= TracePoint.new(:script_compiled) { hook_rails }
        @loads.enable
      end

      def hook_rails
        return if Object.autoload?(:Rails) || !defined?(::Rails::Application) || ::Rails.autoload?(:Application)

        @loads.disable
        ::Rails::Application.prepend(RailsHook)
        ::ActiveSupport.singleton_class.prepend(LoadHooksHook) if defined?(::ActiveSupport)
        @rails = :loaded
      rescue StandardError
        @loads.disable
      end

      def start_timer(watch)
        @watch = watch
        Signal.trap(SIGNAL) { tick }
        return if CaratRuntime.start_ticks(SIGNAL) == 1

        CaratRuntime.warn("there is no timer: the end of the boot can only be detected in a Rails application")
      end

      # The handler of the timer's signal, on the main thread.
      def tick
        return if @watch.nil?

        @watch.observe
        if @watch.booted?(rails: @rails == :loaded)
          act
        elsif @watch.missed?
          stop
        end
      end
    end
  end

  # A setting that acts when the process has booted if its value is "boot".
  class BootSetting < Setting
    def at_boot?
      value == "boot"
    end

    def forks?
      at_boot?
    end
  end
end
