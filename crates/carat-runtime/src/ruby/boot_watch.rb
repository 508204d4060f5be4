# frozen_string_literal: true

module CaratRuntime
  # Detects when a process has finished booting, by signs that every server shows: it listens, it loads no more files, it
  # becomes idle. A server under load from the start never becomes idle, and a job runner or script never listens, so
  # after a while each sign alone is enough.
  class BootWatch
    # Seconds of idling, listening or loading nothing after which a process counts as booted.
    IDLE_LISTENER = 0.1
    BUSY_LISTENER = 1.0
    IDLE = 1.0
    LOADS_NOTHING = 5.0
    # The same if Rails is loaded, whose application is expected to be initialized.
    RAILS_LOADS_NOTHING = 30.0
    DEADLINE = 120.0
    # A worker that loads the application itself loads at least this many files, and begins within this many seconds.
    OWN_APPLICATION = 100
    OWN_APPLICATION_WITHIN = 30.0

    # expecting: number of files that must be loaded from now on before the process counts as booted.
    def initialize(expecting: 0)
      @expected = $LOADED_FEATURES.size + expecting
      @started = @loaded_at = @busy_at = @observed_at = now
      @features = $LOADED_FEATURES.size
      @cpu = cpu
      @listening_since = nil
    end

    # To be called some times per second.
    def observe
      features = $LOADED_FEATURES.size
      @loaded_at = now if features != @features
      @features = features
      time = now
      used = cpu
      @busy_at = time if used - @cpu > (time - @observed_at) / 10 || child?
      @observed_at = time
      @cpu = used
      @listening_since ||= now if CaratRuntime.listening == 1
    end

    # rails: whether Rails is loaded and not initialized.
    def booted?(rails:)
      time = now
      return true if time - @started > DEADLINE
      return false if @features < @expected

      loaded = time - @loaded_at
      return loaded > RAILS_LOADS_NOTHING if rails
      return listener_booted?(time) if @listening_since

      loaded > LOADS_NOTHING || (loaded > IDLE && time - @busy_at > IDLE)
    end

    # Whether the expected files were not loaded in time.
    def missed?
      @features < @expected && now - @started > OWN_APPLICATION_WITHIN
    end

    private

    def listener_booted?(time)
      listening = time - @listening_since
      working = time - @loaded_at
      return true if listening > BUSY_LISTENER && working > BUSY_LISTENER

      [listening, working, time - @busy_at].min > IDLE_LISTENER
    end

    # A server that boots may wait for a program that it has started, such as one that creates its database.
    def child?
      !File.read("/proc/self/task/#{Process.pid}/children").empty?
    rescue SystemCallError
      false
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    end
  end
end
