# frozen_string_literal: true

module CaratRuntime
  # Limits how far the heap of a worker may grow before it must collect. Ruby's own ratios count the slots that a worker
  # has inherited: with a large application each worker may add tens of megabytes before its first collection. The
  # smaller ratios are in the environment. While the server boots they would make it collect all the time, so until the
  # first fork a governor decides when to collect.
  class WorkerGrowth < Setting
    named "worker_growth"

    # Files after which a worker counts as loading the application itself: at least so many, and this share of what its
    # parent has loaded. A preloaded application loads some late, when a page needs them.
    OWN_APPLICATION = 20
    OWN_SHARE = 0.2

    # Up to Ruby 3.1: below so many free slots a full collection gives no page back. The setting puts it into the environment.
    FREE_AFTER_FULL = ENV.fetch("RUBY_GC_HEAP_INIT_SLOTS", "0").to_i

    def start
      @governor = Governor.new
      @governor.start
      nil
    end

    def at_boot?
      true
    end

    def forks?
      true
    end

    def booted
      @governor.stop
      nil
    end

    def before_fork
      @governor.stop if CaratRuntime.preloaded?
      nil
    end

    # A worker of a server without preloading loads the application itself. Threads do not survive a fork.
    def in_child
      return @governor.restart if @governor.running?

      await_own_application
      CaratRuntime.count(:growth_pages, allowance.to_i)
      grow
      true
    end

    private

    # A server that listens before any application is loaded cannot be told from one that has loaded a small one. Unlike
    # other trace points this event leaves compiled code as it is.
    def await_own_application
      @loads&.disable
      loads = 0
      enough = [OWN_APPLICATION, $LOADED_FEATURES.size * OWN_SHARE].max
      @loads = TracePoint.new(:script_compiled) do |compiled|
        # Templates are evaluated when a page first needs them.
        next if compiled.eval_script || (loads += 1) < enough

        @loads.disable
        @governor.start
      end
      @loads.enable
    end

    # Up to Ruby 3.1, with one heap for all sizes, Ruby lets it grow only if a full collection has found almost no free slots.
    # A worker that has inherited a few more would collect fully again and again. So it grows at once to as many as a full
    # collection leaves it.
    def grow
      return if GC.respond_to?(:stat_heap)

      return if GC.stat(:heap_free_slots) >= FREE_AFTER_FULL

      # New objects take the free slots first.
      CaratRuntime.without_collections { FREE_AFTER_FULL.times { Object.new } }
    end

    # Pages by which the heap may grow; nil where Ruby does not say.
    def allowance
      stat = GC.stat
      return stat[:heap_allocatable_pages] if stat.key?(:heap_allocatable_pages)

      constants = GC::INTERNAL_CONSTANTS
      return stat[:heap_allocatable_bytes] / constants[:HEAP_PAGE_SIZE] if stat.key?(:heap_allocatable_bytes)

      per_page = constants[:HEAP_PAGE_OBJ_LIMIT]
      stat[:heap_allocatable_slots] / per_page if per_page && stat.key?(:heap_allocatable_slots)
    end
  end

  # Collects when there are two thirds more objects than after the last collection, or when malloc's memory has grown by a limit, as
  # Ruby's own ratios and limits would. What the heap grows to beyond what lives, every worker may grow by before it
  # collects, so objects are counted and not pages, and also whenever a file is loaded: while the main thread is busy, another one
  # runs ten times per second only.
  class Governor
    GROWTH = 1.67
    INTERVAL = 0.03
    # Objects below which no collection is worth its time.
    LEAST_OBJECTS = 100_000
    # Bytes allocated with malloc since the last collection after which another one is due, as Ruby's own limit begins.
    MALLOC = 16 << 20
    # Seconds without a new file after which nothing is governed any more, if the end of the boot was not detected.
    SETTLED = 10.0

    def running?
      !@thread.nil?
    end

    def start
      @was_disabled = GC.disable
      @files = nil
      @limit = next_limit
      @loads = TracePoint.new(:script_compiled) { collect_if_due }
      @loads.enable
      @thread = Thread.new { govern }
      @thread.name = "carat"
      @thread.report_on_exception = false
    end

    def restart
      @thread = nil
      @loads.disable
      GC.enable unless @was_disabled
      start
      nil
    end

    def stop
      return unless @thread

      @thread.kill
      @thread.join
      @thread = nil
      finish
    end

    private

    def govern
      until settled?
        sleep INTERVAL
        collect_if_due
      end
      finish
    end

    def finish
      @loads.disable
      GC.enable unless @was_disabled
    end

    def settled?
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      @loaded_at = now if $LOADED_FEATURES.size != @files
      @files = $LOADED_FEATURES.size
      now - @loaded_at > SETTLED
    end

    def collect_if_due
      return if GC.stat(:heap_live_slots) < @limit && GC.stat(:malloc_increase_bytes) < MALLOC

      GC.enable
      GC.start
      @limit = next_limit
    ensure
      GC.disable
    end

    def next_limit
      [GC.stat(:heap_live_slots), LEAST_OBJECTS].max * GROWTH
    end
  end
end
