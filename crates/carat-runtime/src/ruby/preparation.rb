# frozen_string_literal: true

module CaratRuntime
  # Brings the heap of a preloaded server into the shape in which its children write least into it.
  class Preparation
    # An object is old after it has survived three collections; a fourth frees what only they kept alive.
    COLLECTIONS = 4

    def initialize(how, compact:)
      @how = how
      @compact = compact
    end

    def run
      CaratRuntime.timed(:prepare_fork_ns) { prepare }
      CaratRuntime.note(:prepared_forks)
    end

    private

    def prepare
      collect if @how == "full" || !warmup?
      warmup? ? Process.warmup : compact
      CaratRuntime.purge
      seal if CaratRuntime.on?("seal")
    end

    # Process.warmup (Ruby 3.3) always compacts.
    def warmup?
      @compact && Process.respond_to?(:warmup)
    end

    def collect
      COLLECTIONS.times { GC.start(full_mark: true, immediate_sweep: true) }
    end

    def compact
      return unless @compact

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.note(:compactions)
      # The pages that compaction emptied go back with the next collection.
      GC.start(full_mark: true, immediate_sweep: true)
    end

    def seal
      filler = Filler.new
      CaratRuntime.note(:sealed_slots, filler.fill)
      CaratRuntime.const_set(:SEALED, filler)
      CaratRuntime.note(:sealed_bytes, CaratRuntime.fill_holes)
      CaratRuntime.attempt("seal") { true }
      CaratRuntime.purge
    end
  end
end
