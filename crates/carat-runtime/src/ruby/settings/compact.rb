# frozen_string_literal: true

module CaratRuntime
  # Compacts Ruby's heap once ("boot", "before-fork") or with every full GC ("auto").
  class Compact < BootSetting
    named "compact"

    # "boot" and "before-fork" count as applied once the compaction has happened.
    def start
      GC.auto_compact = true if value == "auto"
    end

    def booted
      compact if at_boot?
    end

    # Once the application is loaded, because a later compaction would write to shared pages.
    def before_fork
      compact if value == "before-fork" && !@done && CaratRuntime.preloaded?
    end

    # A worker of a server without preloading compacts its own application.
    def in_child
      @done = false if at_boot?
      nil
    end

    def forks?
      %w[boot before-fork].include?(value)
    end

    # Whether the preparation of a fork should compact.
    def pending?
      value != "off" && !@done
    end

    private

    def compact
      @done = true
      extension = Extensions.unfit
      if extension
        left_out
        return refuse(Extensions.reason(extension))
      end

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.count(:compactions)
      true
    end
  end
end
