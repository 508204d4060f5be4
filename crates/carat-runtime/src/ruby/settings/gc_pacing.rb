# frozen_string_literal: true

module CaratRuntime
  # Runs the full GC in an idle moment, so that no request has to wait for it.
  class GcPacing < Setting
    named "gc_pacing"

    def start
      Pacer.start || refuse("this Ruby's collector runs full collections all the same")
    end

    # The thread of the parent does not exist in a child.
    def in_child
      start
    end

    def forks?
      true
    end
  end

  # The thread that collects.
  class Pacer
    STEP = 0.25
    # Seconds after which a full GC that is due runs even though the process never became idle.
    PATIENCE = 30.0
    # Minor GCs after which another full one is due, where Ruby does not report that itself.
    MINORS = 3

    # Whether it runs.
    def self.start
      pacer = new
      return false unless pacer.in_charge?

      CaratRuntime.in_thread { pacer.run }
      true
    end

    def initialize
      @ruby_reports = GC.respond_to?(:config) && GC.latest_gc_info.key?(:need_major_by)
      GC.config(rgengc_allow_full_mark: false) if @ruby_reports
      @cpu = cpu
      @due_since = nil
      @minors = GC.stat(:minor_gc_count)
    end

    # Whether Ruby leaves full collections to this thread, where it can. A collector may ignore what it does not know.
    def in_charge?
      !@ruby_reports || GC.config[:rgengc_allow_full_mark] == false
    end

    def run
      loop do
        Kernel.sleep(STEP)
        collect if due? && (idle? || overdue?)
      end
    rescue StandardError => e
      CaratRuntime.warn("gc_pacing stopped: #{e.class}")
      GC.config(rgengc_allow_full_mark: true) if @ruby_reports
    end

    private

    def due?
      due = @ruby_reports ? GC.latest_gc_info(:need_major_by) : GC.stat(:minor_gc_count) - @minors >= MINORS
      @due_since = due ? @due_since || now : nil
      due
    end

    def idle?
      used = cpu - @cpu
      @cpu += used
      used < STEP / 20
    end

    # Where Ruby does not report that a full GC is due, it also runs the GC by itself.
    def overdue?
      @ruby_reports && now - @due_since > PATIENCE
    end

    def collect
      GC.start
      CaratRuntime.count(:paced_collections)
      @minors = GC.stat(:minor_gc_count)
      @cpu = cpu
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    end
  end
end
