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
      WORDS.each_index.to_h { |place| [WORDS[place], read(place)] }
    end

    def note(word, amount = 1)
      add(WORDS.index(word), amount)
    end

    def timed(word)
      before = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      yield
    ensure
      note(word, Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - before)
    end

    # Whatever fails here must not fail the server. The block says whether the setting took effect.
    def attempt(name)
      mark(:applied, name) if yield
    rescue StandardError, ScriptError => e
      refuse(name, "#{e.class}: #{e.message.lines.first.to_s.chomp}")
    end

    def refuse(name, reason)
      mark(:refused, name)
      complain("#{name} did not take: #{reason}")
      false
    end

    def complain(problem)
      $stderr.puts("carat: #{problem}")
    rescue StandardError
      nil
    end

    def start
      attempt("scrub") { Scrub.new(ENV).run } if on?("scrub")
      attempt("ksm") { merge_pages } if on?("ksm")
      attempt("thp") { decide_huge_pages } if on?("thp")
      attempt("trim") { start_trimming } if on?("trim")
      attempt("compact") { start_compacting } if on?("compact")
      attempt("seal") { bind_new_threads && nil } if on?("seal")
      attempt("gc_pacing") { Pacer.start } if on?("gc_pacing")
      attempt("fork") { ForkHook.install && nil } if forks_matter?
    end

    # Compacts once, unless an extension is loaded that is known to break.
    def compact
      return false unless fit_for_compaction?

      timed(:compact_ns) { GC.compact }
      note(:compactions)
      true
    end

    def watch_boot(expecting: 0)
      watch = BootWatch.new(expecting: expecting)
      thread = Thread.new { attempt("compact") { watch.wait && compact_booted } }
      thread.name = "carat"
      thread.report_on_exception = false
    end

    def before_fork
      attempt("compact") { compact_booted } if setting("compact") == "boot" && listening == 1
      attempt("compact") { compact_booted } if setting("compact") == "before-fork" && preloaded?
      attempt("prepare_fork") { prepare } if on?("prepare_fork") && !@prepared && preloaded?
    end

    def in_child
      attempt("seal") { leave_shared_arena == 1 && note(:own_arena) } if on?("seal") && @prepared
      attempt("gc_pacing") { Pacer.start } if on?("gc_pacing")
      attempt("compact") { watch_worker_boot && nil } if setting("compact") == "boot"
      attempt("yjit") { RubyVM::YJIT.enable || true } if setting("yjit") == "after-fork"
    end

    private

    # A server that has bound its socket before it forks, or that has loaded an application.
    def preloaded?
      listening == 1 || $LOADED_FEATURES.size >= 400
    end

    def prepare
      @prepared = true
      compacts = @settings["compact"] != "off" && !@booted
      compacts &&= fit_for_compaction?
      Preparation.new(setting("prepare_fork"), compact: compacts).run
      true
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

    def fit_for_compaction?
      extension = Extensions.unfit
      return true unless extension

      refuse("compact", "#{extension} keeps objects where the GC cannot see them")
    end

    def start_trimming
      running =
        case setting("trim")
        when "idle" then trim_when_idle
        when "in-gc" then trim_in_gc
        else trim_after_full_gc
        end
      running == 1 || refuse("trim", "this malloc keeps its free memory to itself")
    end

    # compact = "boot" and "before-fork" count as applied when the compaction has happened.
    def start_compacting
      case setting("compact")
      when "boot" then watch_boot && nil
      when "auto" then GC.auto_compact = true
      end
    end

    def merge_pages
      return refuse("ksm", "Linux 6.4 or later can merge pages") unless allow_merging == 1

      switch = "/sys/kernel/mm/ksm/run"
      running = File.readable?(switch) && File.read(switch).to_i == 1
      complain("ksm merges nothing until an administrator writes 1 into #{switch}") unless running
      true
    end

    def decide_huge_pages
      done = setting("thp") == "on" ? allow_huge_pages : forbid_huge_pages
      done == 1 || refuse("thp", "this kernel cannot decide it per process")
    end

    def mark(word, name)
      place = NAMES.index(name) || return
      bit = 1 << place
      note(word, bit) if (report.fetch(word) & bit).zero?
    end
  end
end
