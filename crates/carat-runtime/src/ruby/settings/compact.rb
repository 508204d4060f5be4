# frozen_string_literal: true

module CaratRuntime
  # Compacts Ruby's heap once ("boot", "before-fork") or with every full GC ("auto").
  class Compact < Setting
    named "compact"

    # "boot" and "before-fork" count as applied once the compaction has happened.
    def start
      case value
      when "boot" then watch_boot
      when "auto" then GC.auto_compact = true
      end
    end

    # A server that preloads is compacted before it forks, because a later compaction would write to shared pages.
    def before_fork
      case value
      when "boot" then compact_once if CaratRuntime.listening == 1
      when "before-fork" then compact_once if CaratRuntime.preloaded?
      end
    end

    # A worker of a server without preloading inherits the socket and loads the application itself.
    def in_child
      return unless value == "boot"

      expected = @done ? BootWatch::OWN_APPLICATION : 0
      @done = false
      watch_boot(expecting: expected)
    end

    def forks?
      %w[boot before-fork].include?(value)
    end

    # Whether the preparation of a fork should compact.
    def pending?
      value != "off" && !@done
    end

    # In the watching thread: compacts when the process has booted.
    def compact_booted
      compact_once if @watch.wait
    end

    private

    def watch_boot(expecting: 0)
      @watch = BootWatch.new(expecting: expecting)
      CaratRuntime.in_thread { attempt(:compact_booted) }
      nil
    end

    def compact_once
      return if @done

      @done = true
      extension = Extensions.unfit
      return refuse("#{extension} keeps objects where the GC cannot see them") if extension

      CaratRuntime.timed(:compact_ns) { GC.compact }
      CaratRuntime.count(:compactions)
      true
    end
  end
end
