# frozen_string_literal: true

# Applies the requested settings in a Ruby process. Each file in settings/ defines one of them. The native functions
# that they call are defined by the library.
module CaratRuntime
  @settings = []

  class << self
    # The requested setting of that name; nil where it was not requested.
    def setting(name)
      @settings.find { |setting| setting.name == name }
    end

    # The counters of this process by name.
    def report
      WORDS.each_index.to_h { |place| [WORDS[place], read(place)] }
    end

    # Adds to a counter.
    def count(word, amount = 1)
      add(WORDS.index(word), amount)
    end

    # Sets one bit of a counter that is a set of bits.
    def set_bit(word, bit)
      write(WORDS.index(word), bits(word) | (1 << bit))
    end

    def clear_bit(word, bit)
      write(WORDS.index(word), bits(word) & ~(1 << bit))
    end

    def bit?(word, bit)
      bits(word)[bit] == 1
    end

    # Adds the time that the block takes to a counter of nanoseconds.
    def timed(word)
      before = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      yield
    ensure
      count(word, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - before)
    end

    def warn(problem)
      $stderr.puts("carat: #{problem}")
    rescue StandardError
      nil
    end

    # Runs the block in a thread that leaves no trace on stderr.
    def in_thread(&block)
      thread = Thread.new(&block)
      thread.name = "carat"
      thread.report_on_exception = false
    end

    # Whether this process has loaded an application, as far as can be told before its workers show it; see Application.
    def preloaded?
      return false if Application.missing?

      Application.loaded? || listening == 1 || $LOADED_FEATURES.size >= 400
    end

    def start
      # The place of a setting in the request is its bit in the report.
      pairs = ENV.fetch("CARAT_SETTINGS", "").split(";").map { |pair| pair.split("=", 2) }
      @settings = pairs.each_with_index.map { |(name, value), bit| Setting.build(name, value, bit) }
      run(:start)
      Application.start if at_boot? || @settings.any?(&:preloads?)
      Boot.start if at_boot?
      ForkHook.install if @settings.any?(&:forks?)
      Launcher.remember
      ExecHook.install if @settings.any?(&:hands_on?)
    rescue StandardError => e
      warn("the runtime cannot start: #{e.class}: #{e.message}")
    end

    # The process has booted; see Boot.
    def booted
      run(:booted)
    end

    # Runs the block, in which forks are not those of the server.
    def without_hooks
      @without_hooks = true
      yield
    ensure
      @without_hooks = false
    end

    # Runs the block, in which no collection runs: a heap without free slots gets new pages.
    def without_collections
      stopped = GC.disable
      yield
    ensure
      GC.enable unless stopped
    end

    def before_fork
      return if @without_hooks

      Application.before_fork
      Boot.before_fork if at_boot?
      run(:before_fork)
    rescue StandardError => e
      # The server forks all the same.
      warn("a fork cannot be prepared: #{e.class}: #{e.message}")
    end

    def in_child
      return if @without_hooks

      run(:enter_child)
      run(:in_child)
      Application.in_child
      Boot.in_child if at_boot?
    rescue StandardError => e
      warn("a child cannot be looked after: #{e.class}: #{e.message}")
    end

    # This worker loads the application itself, so what was done before the fork was done without one. Where that is not certain,
    # the process may also be a helper, for which nothing was done. Where it is no `worker`, it may fork some later.
    def own_application(certain:, worker:)
      @settings.select(&:preloads?).each do |setting|
        setting.attempt(:own_application)
        next setting.not_yet unless worker

        setting.not_preloaded if certain || setting.applied?
      end
      Boot.start if at_boot?
    end

    # The arguments of a call that starts a program, with what the settings need if that program is a Ruby which serves
    # instead of this process; otherwise as they are. `replaces`: whether it takes the place of this process.
    def hand_on(arguments, replaces: false)
      launch = Launch.new(arguments)
      return arguments unless Launcher.hands_on?(launch, replaces)

      @settings.each { |setting| setting.hand_on(launch) }
      launch.arguments
    rescue StandardError
      arguments
    end

    private

    def bits(word)
      read(WORDS.index(word))
    end

    def at_boot?
      @settings.any?(&:at_boot?)
    end

    def run(hook)
      @settings.each { |setting| setting.attempt(hook) }
    end
  end

  # A requested setting. A subclass calls `named` and overrides hooks. A hook returns true once the setting is applied,
  # otherwise nil, or what `refuse` returns.
  class Setting
    @classes = {}

    class << self
      attr_reader :classes

      def named(name)
        Setting.classes[name] = self
      end

      def build(name, value, bit)
        Setting.classes.fetch(name, Unsupported).new(name, value, bit)
      end
    end

    attr_reader :name, :value

    def initialize(name, value, bit)
      @name = name
      @value = value
      @bit = bit
    end

    # When the library has been loaded.
    def start; end

    # Once when the process has booted, if `at_boot?`.
    def booted; end

    # In the parent before each fork.
    def before_fork; end

    # In a new child, before `in_child` of any setting: decides where later allocations go.
    def enter_child; end

    # In a new child.
    def in_child; end

    # In a worker that loads the application itself, if `preloads?`: undoes what must not hold there.
    def own_application; end

    # Adds what this setting needs to the call that starts a Ruby which serves instead of this process.
    def hand_on(launch); end

    # Whether the end of the boot must be detected.
    def at_boot?
      false
    end

    # Whether the hooks around forks are needed.
    def forks?
      preloads?
    end

    # Whether it acts on an application that the server has loaded before it forks.
    def preloads?
      false
    end

    # Whether the hooks around exec and spawn are needed.
    def hands_on?
      false
    end

    # Runs a hook. Whatever fails in it must not fail the server.
    def attempt(hook)
      applied if public_send(hook)
    rescue StandardError, ScriptError => e
      refuse("#{e.class}: #{e.message.lines.first.to_s.chomp}")
    end

    def applied
      CaratRuntime.clear_bit(:not_preloaded, @bit)
      CaratRuntime.set_bit(:assumed, @bit) if preloads? && !Application.certain?
      CaratRuntime.set_bit(:applied, @bit)
    end

    def applied?
      CaratRuntime.bit?(:applied, @bit)
    end

    # Reports that it has no effect in this process so far.
    def not_yet
      CaratRuntime.clear_bit(:applied, @bit)
    end

    # Reports that it has no effect in this process, because no application was loaded before the fork.
    def not_preloaded
      return if CaratRuntime.bit?(:refused, @bit)

      CaratRuntime.clear_bit(:applied, @bit)
      CaratRuntime.set_bit(:not_preloaded, @bit)
    end

    # Reports that there is nothing to do on this version of Ruby; returns nil.
    def needless
      CaratRuntime.set_bit(:needless, @bit)
      nil
    end

    # Reports that the setting goes without a compaction because of an extension.
    def left_out
      CaratRuntime.set_bit(:left_out, @bit)
    end

    # Reports that the setting cannot be applied; returns nil.
    def refuse(reason)
      CaratRuntime.set_bit(:refused, @bit)
      CaratRuntime.warn("#{name} was not applied: #{reason}")
      nil
    end
  end

  # A setting that this library does not have.
  class Unsupported < Setting
    def start
      refuse("this version of the runtime does not have it")
    end
  end
end
