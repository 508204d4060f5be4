# frozen_string_literal: true

module CaratRuntime
  # Removes from the environment what is meant for this server alone, so that the programs it starts (a browser, git,
  # an image tool) run as before, and restores it when the server replaces itself. Requested by `carat exec`.
  class ScrubEnvironment < Setting
    named "scrub"

    def start
      Scrub.new(ENV, value).run
      true
    end

    def execs?
      true
    end

    def before_exec
      Scrub.restore
    end
  end

  # The variables that are removed and restored.
  class Scrub
    LIBRARIES = %w[RUBYOPT CARAT_RUNTIME CARAT_SETTINGS].freeze
    # What only `exec --verify` needs.
    VERIFIER = %w[CARAT_PROBE CARAT_PAGES].freeze
    # Where `carat exec` keeps the earlier value of a variable, which children get again.
    INHERITED = { "LD_PRELOAD" => "CARAT_INHERITED_LD_PRELOAD", "RUBYOPT" => "CARAT_INHERITED_RUBYOPT" }.freeze
    # By the value of the setting: what every restart gets again, and what it gets only while the verifier works.
    NAMES = {
      "on" => [["LD_PRELOAD", *LIBRARIES, *INHERITED.values], VERIFIER],
      "once" => [[], [*LIBRARIES, *VERIFIER, *INHERITED.values]],
      "verifier" => [[], VERIFIER],
    }.freeze

    class << self
      # The removed variables with their values, those of them that every restart gets again, and what is left of them.
      attr_accessor :removed, :lasting, :left

      # Restores the variables, except those that the server has changed since. Returns a function that undoes it, for
      # an exec that failed.
      def restore
        restored = verifying? ? removed : removed.slice(*lasting)
        restored = restored.reject { |name, _| changed?(name) }.merge(beside_other_options(restored))
        before = restored.to_h { |name, _| [name, ENV[name]] }
        restored.each { |name, value| ENV[name] = value }
        -> { before.each { |name, value| ENV[name] = value } }
      end

      private

      def changed?(name)
        ENV[name] != left[name]
      end

      # Options for Ruby that the server has added, as `bundle exec` does, stay, and children get these again.
      def beside_other_options(restored)
        return {} unless restored.key?("RUBYOPT") && changed?("RUBYOPT")

        own = restored["RUBYOPT"].split - left["RUBYOPT"].to_s.split
        { "RUBYOPT" => [*ENV["RUBYOPT"], *own].join(" "), INHERITED["RUBYOPT"] => ENV["RUBYOPT"] }
      end

      # The verifier removes the folder of the pages when it has ended.
      def verifying?
        pages = removed["CARAT_PAGES"]
        !pages.nil? && File.directory?(pages)
      end
    end

    def initialize(environment, scope)
      @environment = environment
      @lasting, @passing = NAMES.fetch(scope)
    end

    def run
      Scrub.lasting = @lasting
      Scrub.removed = (@lasting + @passing).to_h { |name| [name, @environment[name]] }.compact
      Scrub.left = Scrub.removed.to_h { |name, _| [name, @environment[INHERITED[name].to_s]] }
      Scrub.left.each { |name, value| @environment[name] = value }
    end
  end
end
