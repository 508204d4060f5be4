# frozen_string_literal: true

# What the settings ask of a Ruby process. The native functions that it calls are defined by the library.
module CaratRuntime
  @settings = ENV.fetch("CARAT_SETTINGS", "").split(";").to_h { |pair| pair.split("=", 2) }
  @booted = false
  @prepared = false

  class << self
    def setting(name)
      @settings.fetch(name, "off")
    end

    def on?(name)
      !%w[off ruby].include?(setting(name))
    end

    # The report of this process by name.
    def report
      FIELDS.each_index.to_h { |number| [FIELDS[number], read(number)] }
    end

    def note(field, amount = 1)
      add(FIELDS.index(field), amount)
    end

    def timed(field)
      before = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      yield
    ensure
      note(field, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - before)
    end

    # Whatever fails here must not fail the server.
    def attempt(what)
      yield
    rescue StandardError, ScriptError => e
      note(:failures)
      complain("#{what} did not take: #{e.class}: #{e.message.lines.first.to_s.chomp}")
    end

    def complain(problem)
      $stderr.puts("carat: #{problem}")
    rescue StandardError
      nil
    end

    def start
      attempt("scrub") { Scrub.new(ENV).run if on?("scrub") }
      attempt("ksm") { allow_merging == 1 ? note(:merging) : unsupported("ksm", "this kernel") } if on?("ksm")
      attempt("thp") { decide_huge_pages } if on?("thp")
      attempt("trim") { start_trimming } if on?("trim")
      attempt("compact") { start_compacting } if on?("compact")
      attempt("seal") { bind_new_threads } if on?("seal")
      attempt("gc_pacing") { Pacer.start } if on?("gc_pacing")
      attempt("the hook into fork") { ForkHook.install } if forks_matter?
    end

    # Compacts once, unless an extension is loaded that is known to break.
    def compact
      if (extension = Extensions.unfit)
        return complain("no compaction, because #{extension} keeps objects where the GC cannot see them")
      end

      timed(:compaction_time) { GC.compact }
      note(:compactions)
    end

    def watch_boot(expecting: 0)
      watch = BootWatch.new(expecting: expecting)
      thread = Thread.new { attempt("compact") { watch.wait && compact_booted } }
      thread.name = "carat"
      thread.report_on_exception = false
    end

    def before_fork
      attempt("compact") { compact_booted if setting("compact") == "boot" && listening == 1 }
      attempt("compact") { compact_booted if setting("compact") == "before-fork" && preloaded? }
      attempt("prepare_fork") { prepare if on?("prepare_fork") && preloaded? }
    end

    def in_child
      attempt("seal") { note(:own_arena, leave_shared_arena) if on?("seal") && @prepared }
      attempt("gc_pacing") { Pacer.start } if on?("gc_pacing")
      attempt("compact") { watch_worker_boot if setting("compact") == "boot" }
      attempt("yjit") { RubyVM::YJIT.enable } if setting("yjit") == "after-fork"
    end

    private

    # A server that has bound its socket before it forks, or that has loaded an application.
    def preloaded?
      listening == 1 || $LOADED_FEATURES.size >= 400
    end

    def prepare
      return if @prepared

      @prepared = true
      Preparation.new(setting("prepare_fork"), compact: @settings["compact"] != "off" && !@booted).run
    end

    # A worker of a server without preloading inherits the socket and loads the application itself.
    def watch_worker_boot
      expected = @booted ? BootWatch::OWN_APPLICATION : 0
      @booted = false
      watch_boot(expecting: expected)
    end

    def compact_booted
      return if @booted

      @booted = true
      compact
    end

    def forks_matter?
      on?("prepare_fork") || on?("gc_pacing") || setting("yjit") == "after-fork" ||
        %w[boot before-fork].include?(setting("compact"))
    end

    def start_trimming
      running = setting("trim") == "idle" ? trim_when_idle : trim_after_full_gc
      unsupported("trim", "this malloc") unless running == 1
    end

    def start_compacting
      case setting("compact")
      when "boot" then watch_boot
      when "auto"
        GC.auto_compact = true
        note(:auto_compact)
      end
    end

    def decide_huge_pages
      wanted = setting("thp")
      done = wanted == "on" ? allow_huge_pages : forbid_huge_pages
      return unsupported("thp", "this kernel") unless done == 1

      note(:huge_pages) if wanted == "on"
    end

    def unsupported(name, where)
      note(:failures)
      complain("#{name} does nothing here: #{where} cannot do it")
    end
  end
end
