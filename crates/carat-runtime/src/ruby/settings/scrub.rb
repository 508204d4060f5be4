# frozen_string_literal: true

module CaratRuntime
  # Removes from the environment what is meant for the server alone, so that the programs it starts (a browser, git, an image
  # tool) run as before, and hands it on to a Ruby that serves instead of this process. Requested by `carat` itself.
  class ScrubEnvironment < Setting
    named "scrub"

    # The variables that were removed, with their values.
    def removed
      @scrub.removed
    end

    def start
      @scrub = Scrub.new(value)
      @scrub.run
      true
    end

    def hands_on?
      true
    end

    def hand_on(launch)
      @scrub.hand_on(launch)
    end
  end

  # The variables that are removed and handed on.
  class Scrub
    SETTINGS = %w[CARAT_RUNTIME CARAT_SETTINGS CARAT_VARIABLES].freeze
    # What only `exec --verify` needs.
    VERIFIER = %w[CARAT_PROBE CARAT_PAGES CARAT_TOKEN].freeze
    # The variables that settings are made of. They are handed on together or not at all.
    VARIABLES = ENV.fetch("CARAT_VARIABLES", "").split(",").freeze
    # By the words of the setting's value: what is always handed on, and what is only while the verifier works.
    LASTING = { "settings" => [*VARIABLES, *SETTINGS], "options" => ["RUBYOPT"] }.freeze
    PASSING = { "libraries" => [*SETTINGS, "RUBYOPT"], "verifier" => VERIFIER }.freeze

    attr_reader :removed

    # Where `carat` keeps the earlier value of a variable, which children get again.
    def self.inherited(name)
      ["CARAT_INHERITED", name].join("_")
    end

    def initialize(scope)
      @lasting, @passing = [LASTING, PASSING].map do |names|
        removed = names.values_at(*scope.split(",")).compact.flatten
        removed + removed.map { |name| Scrub.inherited(name) }
      end
    end

    # Removes the variables and keeps their values, and what is left of them.
    def run
      @removed = (@lasting + @passing).to_h { |name| [name, ENV[name]] }.compact
      @left = @removed.to_h { |name, _| [name, ENV[Scrub.inherited(name)]] }
      @left.each { |name, value| ENV[name] = value }
    end

    # Hands on what was removed, except what the server has changed since.
    def hand_on(launch)
      handed = verifying? ? @removed : @removed.slice(*@lasting)
      return if handed.key?("RUBYOPT") && !required?

      handed.each { |name, value| launch.set(name, value) if launch.value(name) == @left[name] }
      add_options(launch) if handed.key?("RUBYOPT") && launch.value("RUBYOPT") != @left["RUBYOPT"]
    end

    private

    # Options for Ruby that the server has added, as `bundle exec` does, stay, and children get these again.
    def add_options(launch)
      added = launch.value("RUBYOPT")
      own = @removed["RUBYOPT"].split - @left["RUBYOPT"].to_s.split
      launch.set("RUBYOPT", [*added, *own].join(" "))
      launch.set(Scrub.inherited("RUBYOPT"), added)
    end

    # Whether this process can read what RUBYOPT requires. A Ruby that cannot does not start at all, and this process may have
    # another user or root by now, or the files may have been removed.
    def required?
      files = @removed["RUBYOPT"].split.grep(/\A-r.*carat_shim\.rb\z/) { |word| word.delete_prefix("-r") }
      missing = files.find { |file| !File.readable?(file) }
      return true if missing.nil?

      CaratRuntime.warn("a Ruby is started without settings, because it could not read #{missing}; run `carat install` as root")
      false
    end

    # The verifier removes the folder of the pages when it has ended.
    def verifying?
      pages = @removed["CARAT_PAGES"]
      !pages.nil? && File.directory?(pages)
    end
  end
end
