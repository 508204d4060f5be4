# frozen_string_literal: true

module CaratRuntime
  # Before the first fork of a preloaded server: brings the heap into the state in which children write least to it.
  class PrepareFork < Setting
    named "prepare_fork"

    # An object is old after it has survived three collections; a fourth frees what only they kept alive.
    COLLECTIONS = 4

    def before_fork
      return if prepared? || !CaratRuntime.preloaded?

      @prepared = true
      @compact = compact?
      CaratRuntime.timed(:prepare_fork_ns) { prepare }
      CaratRuntime.count(:prepared_forks)
      true
    end

    def forks?
      true
    end

    def prepared?
      @prepared
    end

    private

    def prepare
      collect if value == "full" || !warmup?
      warmup? ? Process.warmup : compact
      CaratRuntime.purge
      CaratRuntime.setting("seal")&.fill { collect }
    end

    # Process.warmup (Ruby 3.3) always compacts.
    def warmup?
      @compact && Process.respond_to?(:warmup)
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
      COLLECTIONS.times { GC.start(full_mark: true, immediate_sweep: true) }
    end

    def compact
      return unless @compact

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.count(:compactions)
      # The next collection returns the pages that compaction has emptied.
      GC.start(full_mark: true, immediate_sweep: true)
    end
  end
end
