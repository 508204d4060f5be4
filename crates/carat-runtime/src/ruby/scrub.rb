# frozen_string_literal: true

module CaratRuntime
  # Takes out of the environment what is meant for this server alone, so that the programs it starts (a
  # browser, git, an image tool) run as they always did, and puts it back when the server replaces itself.
  class Scrub
    NAMES = %w[LD_PRELOAD RUBYOPT CARAT_RUNTIME CARAT_SETTINGS].freeze
    # Where the starter keeps what a variable was before; children get that again.
    INHERITED = { "LD_PRELOAD" => "CARAT_INHERITED_LD_PRELOAD", "RUBYOPT" => "CARAT_INHERITED_RUBYOPT" }.freeze

    # Puts everything back around an exec, which is how a server restarts itself.
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

      # Sets the variables again, but for those that the server itself has changed since; returns what
      # undoes it, for an exec that failed.
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
