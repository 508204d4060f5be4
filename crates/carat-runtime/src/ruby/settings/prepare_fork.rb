# frozen_string_literal: true

module CaratRuntime
  # Before the first fork of a preloaded server: brings the heap into the state in which children write least to it.
  class PrepareFork < Setting
    named "prepare_fork"

    # An object is old after it has survived three collections; a fourth frees what only they kept alive. GC.compact is
    # a full collection too, so it can be the fourth.
    COLLECTIONS = 4

    # A collection that sweeps gives back three empty pages at a time and then stops to count (`gc_sweep_step`, gc.c of 3.1,
    # gc/default/default.c of 3.4), so that five of eight remain. After ten such collections one of a hundred does.
    MOST_COLLECTIONS_FOR_PAGES = 10

    # Process.warmup compacts each time, so it is not repeated for less than this share of the heap's pages.
    WORTHWHILE_PAGES = 0.02

    def before_fork
      return if prepared? || !CaratRuntime.preloaded?

      @prepared = true
      @compact = compact?
      CaratRuntime.timed(:prepare_fork_ns) { prepare }
      CaratRuntime.count(:prepared_forks)
      true
    end

    def preloads?
      true
    end

    # It may fork others later, as Puma's `fork_worker` does.
    def own_application
      @prepared = false
      nil
    end

    def prepared?
      @prepared
    end

    private

    def prepare
      collect if value == "full" || !warmup?
      warmup? ? warm_up : compact
      CaratRuntime.setting("worker_growth")&.attempt(:settle)
      CaratRuntime.purge
      CaratRuntime.setting("seal")&.fill { collect }
    end

    # Process.warmup (Ruby 3.3) always compacts.
    def warmup?
      @compact && Process.respond_to?(:warmup)
    end

    # Ruby 3.3 gives back every empty page here, and a later one about half of them. A collection gives none back there until
    # two thirds of the slots are free.
    def warm_up
      Process.warmup
      return if value != "full" || !GC.stat.key?(:heap_empty_pages)

      # What is given back Ruby may allocate again, in each worker, unless `worker_growth` ends that.
      return_pages(worthwhile: WORTHWHILE_PAGES) { Process.warmup }
    end

    def compact?
      setting = CaratRuntime.setting("compact")
      return false if setting && !setting.pending?

      extension = Extensions.unfit
      return true if extension.nil?

      left_out
      CaratRuntime.warn("no compaction before the fork: #{Extensions.reason(extension)}")
      false
    end

    def collect
      compaction_follows = @compact && !warmup?
      (compaction_follows ? COLLECTIONS - 1 : COLLECTIONS).times { collect_once }
    end

    def collect_once
      GC.start(full_mark: true, immediate_sweep: true)
    end

    def compact
      return unless @compact

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.count(:compactions)
      return_pages { sweep }
    end

    # A minor collection marks little here, where nearly every object is old, and sweeps as a full one does.
    def sweep
      GC.start(full_mark: false, immediate_sweep: true)
    end

    # Gives back the pages that compaction has emptied, so that workers do not begin with as many free slots as the boot happened
    # to leave.
    def return_pages(worthwhile: 0)
      MOST_COLLECTIONS_FOR_PAGES.times do
        pages = GC.stat[:heap_eden_pages]
        yield
        break unless pages && pages - GC.stat(:heap_eden_pages) > worthwhile * pages
      end
    end
  end
end
