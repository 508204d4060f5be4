# frozen_string_literal: true

module CaratRuntime
  # Runs the full GC in an idle moment, so that no request has to wait for it.
  class Pacer
    STEP = 0.25
    # Seconds after which a full GC that is due runs even though the process never became idle.
    PATIENCE = 30.0
    # Minor GCs since the last full one that make another worth its time, where Ruby does not say itself.
    MINORS = 3

    def self.start
      thread = Thread.new { new.run }
      thread.name = "carat"
      thread.report_on_exception = false
      true
    end

    def initialize
      @ruby_tells = GC.respond_to?(:config) && GC.latest_gc_info.key?(:need_major_by)
      GC.config(rgengc_allow_full_mark: false) if @ruby_tells
      @cpu = cpu
      @due_since = nil
      @minors = GC.stat(:minor_gc_count)
    end

    def run
      loop do
        Kernel.sleep(STEP)
        collect if due? && (idle? || overdue?)
      end
    rescue StandardError => e
      CaratRuntime.complain("gc_pacing stopped: #{e.class}")
      GC.config(rgengc_allow_full_mark: true) if @ruby_tells
    end

    private

    def due?
      due = @ruby_tells ? GC.latest_gc_info(:need_major_by) : GC.stat(:minor_gc_count) - @minors >= MINORS
      @due_since = due ? @due_since || now : nil
      due
    end

    def idle?
      used = cpu - @cpu
      @cpu += used
      used < STEP / 20
    end

    # Without word from Ruby the full GC comes by itself in time.
    def overdue?
      @ruby_tells && now - @due_since > PATIENCE
    end

    def collect
      GC.start
      CaratRuntime.note(:paced_collections)
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
