# frozen_string_literal: true

module CaratRuntime
  # Limits how far the heap of a worker may grow before it must collect. Ruby's own ratios count the slots that a worker
  # has inherited: with a large application each worker may add tens of megabytes before its first collection. Smaller ratios
  # would make the boot collect all the time, so they hold from right before the first fork of a preloaded server on.
  class WorkerGrowth < Setting
    named "worker_growth"

    # Objects that are made before a counter is read again.
    BATCH = 50
    # Each collection gives back three empty pages of eight (see PrepareFork); fewer than this share are not worth another.
    WORTHWHILE_PAGES = 0.02
    MOST_COLLECTIONS = 10
    # The growth is at most one of so many live slots.
    SHARE = 10

    # For this process and those that it forks. A preparation of the fork follows, and settles the heap itself.
    def before_fork
      return if @tried || !CaratRuntime.preloaded?

      @tried = true
      @free_after_full = CaratRuntime.limit_growth(growth)
      return refuse("this Ruby keeps the limits of its heap in an unknown way") if @free_after_full.negative?

      @limited = true
      settle unless CaratRuntime.setting("prepare_fork")
      true
    end

    # Once after that; returns nil. Ends what earlier collections have allowed the heap to grow by. Ruby 3.2, 3.3 and 4.1 count
    # anew only upwards, so what is beyond the limit is used up, and then given back.
    def settle
      return if !@limited || @settled

      @settled = true
      collect(full: true)
      used_up = CaratRuntime.without_collections { HeapObjects.makers.count { |heap, made| use_up(heap, made) } }
      return_pages if used_up.positive?
      let_grow if GC.respond_to?(:stat_heap) && !CaratRuntime.report[:warmed_pages].positive?
      nil
    end

    def in_child
      return unless @limited

      CaratRuntime.count(:growth_pages, allowance.to_i)
      grow
      true
    end

    # Ruby's own ratios are right for a worker that boots, and it may fork others later.
    def own_application
      return unless @limited

      CaratRuntime.restore_growth
      @tried = @limited = @settled = false
      @growth = nil
    end

    def preloads?
      true
    end

    private

    # A small application gets less: with more than Ruby's own ratios would give it, its workers would be larger.
    def growth
      @growth ||= begin
        collect(full: true)
        [Integer(value), GC.stat(:heap_live_slots) / SHARE].min
      end
    end

    # Returns whether there was anything to use up.
    def use_up(heap, made)
      limit = growth_pages
      return false if allowance(heap).to_i <= limit

      # A heap grows by less than it has each time.
      GC.stat(:heap_available_slots).div(BATCH).succ.times do
        break if allowance(heap).to_i <= limit

        BATCH.times { made.call }
      end
      true
    end

    # A worker uses up what its heaps may grow by. One that then needs more may grow by as much again (`let_grow` of
    # gc_limits.rs); larger heaps than that are collected fully. After warming they need no more: in two pairs of
    # trials workers of Redmine collected fully as seldom without it.
    def let_grow
      GC.stat_heap.each do |heap, stat|
        pages, slots = stat.values_at(:heap_eden_pages, :heap_eden_slots).map(&:to_i)
        more = allowance(heap).to_i + growth_pages
        CaratRuntime.let_grow(heap, slots + (more * slots / pages)) if pages.positive?
      end
    end

    def return_pages
      CaratRuntime.return_all_pages
      MOST_COLLECTIONS.times do
        pages = GC.stat(:heap_eden_pages)
        # A minor collection marks little here, where nearly every object is old, and sweeps as a full one does.
        collect(full: false)
        break if pages - GC.stat(:heap_eden_pages) < WORTHWHILE_PAGES * pages
      end
    ensure
      CaratRuntime.return_usual_pages
    end

    def collect(full:)
      GC.start(full_mark: full, immediate_sweep: true)
    end

    # Up to Ruby 3.1, with one heap for all sizes, Ruby lets it grow only if a full collection has found almost no free slots.
    # A worker that has inherited a few more would collect fully again and again. So it grows at once to as many as a full
    # collection leaves it.
    def grow
      return if GC.stat(:heap_free_slots) >= @free_after_full

      # New objects take the free slots first.
      CaratRuntime.without_collections { @free_after_full.times { Object.new } }
    end

    # Pages of 40-byte slots for the growth.
    def growth_pages
      constants = GC::INTERNAL_CONSTANTS
      growth / (constants[:HEAP_PAGE_OBJ_LIMIT] || constants[:HEAP_PAGE_SIZE] / 40)
    end

    # Pages by which the heap of this number may grow, or all heaps together; nil where Ruby does not say.
    def allowance(heap = nil)
      stat = heap ? GC.stat_heap(heap) : {}
      return stat[:heap_allocatable_pages] if stat.key?(:heap_allocatable_pages)

      stat = GC.stat
      return stat[:heap_allocatable_pages] if stat.key?(:heap_allocatable_pages)

      constants = GC::INTERNAL_CONSTANTS
      return stat[:heap_allocatable_bytes] / constants[:HEAP_PAGE_SIZE] if stat.key?(:heap_allocatable_bytes)

      per_page = constants[:HEAP_PAGE_OBJ_LIMIT]
      stat[:heap_allocatable_slots] / per_page if per_page && stat.key?(:heap_allocatable_slots)
    end
  end
end
