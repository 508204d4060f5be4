# frozen_string_literal: true

module CaratRuntime
  # Fills the free slots of Ruby's heap, so that a child's new objects come to lie on pages of its own.
  # The objects have classes of their own, so that a heap dump can tell them from the application's.
  class Filler
    class Slot; end
    class TextSlot < String; end

    # Slots of one heap that may be filled, so that a mistake about a heap cannot fill the memory.
    LIMIT = 2_000_000
    AT_ONCE = 50

    def initialize
      @kept = []
    end

    # Fills until each heap had to take a new page; returns how many slots that were.
    def fill
      stopped = GC.disable
      heaps.each { |heap, made| fill_heap(heap, made) }
      @kept.size
    ensure
      GC.enable unless stopped
    end

    private

    # Number of the heap (nil where Ruby has one) and what makes an object in it.
    def heaps
      slot = -> { Slot.new }
      return { nil => slot } unless GC.respond_to?(:stat_heap)

      GC.stat_heap.to_h do |heap, stat|
        size = stat[:slot_size]
        # The header of a String and its final NUL take up to 32 bytes of its slot (Ruby 3.2 and later).
        [heap, size <= 40 ? slot : -> { TextSlot.new("x" * (size - 32)) }]
      end
    end

    def fill_heap(heap, made)
      pages = pages(heap)
      LIMIT.div(AT_ONCE).times do
        AT_ONCE.times { @kept << made.call }
        break if pages(heap) > pages
      end
    end

    def pages(heap)
      heap ? GC.stat_heap(heap, :heap_eden_pages) : GC.stat(:heap_eden_pages)
    end
  end
end
