# frozen_string_literal: true

module CaratRuntime
  # Keeps workers from writing to pages that they share with their parent.
  class Seal < Setting
    named "seal"

    def start
      CaratRuntime.bind_new_threads
      nil
    end

    def enter_child
      return unless CaratRuntime.setting("prepare_fork")&.prepared? && CaratRuntime.leave_shared_arena == 1

      CaratRuntime.count(:own_arena)
      true
    end

    def preloads?
      true
    end

    # Fills free slots and the free holes of malloc; called while a fork is prepared. The block makes objects old: up to
    # Ruby 3.2 an object holds its own age, so the first collections of a child would write to every young one.
    def fill
      @filler = Filler.new
      CaratRuntime.count(:sealed_slots, @filler.fill)
      yield
      CaratRuntime.count(:sealed_bytes, CaratRuntime.fill_holes)
      applied
      CaratRuntime.purge
    end
  end

  # Fills the free slots of Ruby's heap, so that new objects of a child are on pages of its own.
  class Filler
    BATCH = 50

    def initialize
      @kept = []
    end

    # Fills each heap until it allocates a new page; returns the number of slots filled.
    def fill
      CaratRuntime.without_collections { HeapObjects.makers.each { |heap, made| fill_heap(heap, made) } }
      @kept.size
    end

    private

    # A heap has at most as many free slots as slots. Where that many objects added no page, they went to another heap
    # (Ruby 4.1 has heaps that no object here fits exactly), or the heap grows without a new page.
    def fill_heap(heap, made)
      pages = pages(heap)
      slots(heap).div(BATCH).succ.times do
        BATCH.times { @kept << made.call }
        break if pages(heap) > pages
      end
    end

    def pages(heap)
      heap ? GC.stat_heap(heap, :heap_eden_pages) : GC.stat(:heap_eden_pages)
    end

    def slots(heap)
      heap ? GC.stat_heap(heap, :heap_eden_slots) : GC.stat(:heap_available_slots)
    end
  end
end
