# frozen_string_literal: true

module CaratRuntime
  # Removes from the environment what is meant for this server alone, so that the programs it starts (a browser, git,
  # an image tool) run as before, and restores it when the server replaces itself. Requested by `carat exec`.
  class ScrubEnvironment < Setting
    named "scrub"

    def start
      Scrub.new(ENV).run
      true
    end
  end

  # The variables that are removed and restored.
  class Scrub
    NAMES = %w[LD_PRELOAD RUBYOPT CARAT_RUNTIME CARAT_SETTINGS].freeze
    # Where `carat exec` keeps the earlier value of a variable, which children get again.
    INHERITED = { "LD_PRELOAD" => "CARAT_INHERITED_LD_PRELOAD", "RUBYOPT" => "CARAT_INHERITED_RUBYOPT" }.freeze

    # Restores the variables around an exec, which is how a server restarts itself.
    module Restore
      def exec(*arguments, **options)
        restored = CaratRuntime::Scrub.restore
        options.empty? ? super(*arguments) : super(*arguments, **options)
      ensure
        restored&.call
      end
    end

    class << self
      attr_accessor :removed, :left

      # Restores the variables, except those that the server has changed since. Returns a function that undoes it, for
      # an exec that failed.
      def restore
        before = removed.to_h { |name, _| [name, ENV[name]] }
        removed.each { |name, value| ENV[name] = value if before[name] == left[name] }
        -> { before.each { |name, value| ENV[name] = value } }
      end
    end

    def initialize(environment)
      @environment = environment
    end

    def run
      Scrub.removed = (NAMES + INHERITED.values).to_h { |name| [name, @environment[name]] }.compact
      Scrub.left = Scrub.removed.to_h { |name, _| [name, @environment[INHERITED[name].to_s]] }
      Scrub.left.each { |name, value| @environment[name] = value }
      [Process, Kernel].each { |place| place.singleton_class.prepend(Restore) }
      Object.include(Restore)
      Object.send(:private, :exec)
    end
  end
end
