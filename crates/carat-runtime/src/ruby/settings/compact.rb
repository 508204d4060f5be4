# frozen_string_literal: true

module CaratRuntime
  # Compacts Ruby's heap once ("boot", "before-fork") or with every full GC ("auto").
  class Compact < BootSetting
    named "compact"

    # "boot" and "before-fork" count as applied once the compaction has happened. Ruby itself compacts with "auto", so
    # nothing can be pinned right before.
    def start
      return unless value == "auto"

      # A collection that is under way began without pinning what C keeps, and must not end with a compaction: Ruby 3.1
      # crashes then.
      GC.start
      GC.auto_compact = true
      return refuse("this Ruby does not compact by itself") unless GC.auto_compact

      Extensions.watch { |extension| stop(extension) }
      true
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

    def preloads?
      value == "before-fork"
    end

    # It may fork others later, as Puma's `fork_worker` does.
    def own_application
      @done = false
      nil
    end

    # Whether the preparation of a fork should compact.
    def pending?
      value != "off" && !@done
    end

    private

    def stop(extension)
      GC.auto_compact = false
      not_yet
      leave_out(extension)
    end

    def leave_out(extension)
      left_out
      refuse(Extensions.reason(extension))
    end

    def compact
      @done = true
      extension = Extensions.unfit
      return leave_out(extension) if extension

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.count(:compactions)
      true
    end
  end
end
