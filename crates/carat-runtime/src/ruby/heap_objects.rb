# frozen_string_literal: true

module CaratRuntime
  # Objects for each of Ruby's heaps. They have a class of their own, or begin with a text, so that a heap dump can tell them
  # from the application's.
  module HeapObjects
    class Slot; end

    TEXT = "carat filler "

    class << self
      # Number of each heap (nil where Ruby has only one) and a function that makes an object in it.
      def makers
        slot = -> { Slot.new }
        return { nil => slot } unless GC.respond_to?(:stat_heap)

        sizes = GC.stat_heap.transform_values { |stat| stat[:slot_size] }
        sizes.to_h { |heap, size| [heap, size == sizes.values.min ? slot : text(size)] }
      end

      private

      # A copy of a String takes the slot that its content needs and no other. A subclass would take a small slot, and a second
      # String that it shares. The header and the final NUL take up to 32 bytes (Ruby 3.2 and later).
      def text(size)
        content = TEXT.ljust(size - 32, ".")
        -> { content.dup }
      end
    end
  end
end
