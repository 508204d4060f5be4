# frozen_string_literal: true

module CaratRuntime
  # Finds the moment at which a process has finished booting, by what every server shows: it listens, it
  # loads no more files, it becomes quiet. A server under load from its first second on never becomes
  # quiet, and a job runner or script never listens, so each sign alone is enough after a while.
  class BootWatch
    STEP = 0.05
    # Seconds of quiet, and of listening or loading nothing, after which a process counts as booted.
    QUIET_LISTENER = 0.1
    BUSY_LISTENER = 1.0
    QUIET = 1.0
    LOADS_NOTHING = 5.0
    DEADLINE = 120.0

    def initialize
      @started = @loaded_at = @busy_at = now
      @features = $LOADED_FEATURES.size
      @cpu = cpu
      @listening_since = nil
    end

    # Returns true once the process has booted.
    def wait
      until booted?
        Kernel.sleep(STEP)
        observe
      end
      true
    end

    private

    def observe
      features = $LOADED_FEATURES.size
      @loaded_at = now if features != @features
      @features = features
      used = cpu
      @busy_at = now if used - @cpu > STEP / 10
      @cpu = used
      @listening_since ||= now if CaratRuntime.listening == 1
    end

    def booted?
      time = now
      return true if time - @started > DEADLINE
      return listener_booted?(time) if @listening_since

      loaded = time - @loaded_at
      loaded > LOADS_NOTHING || (loaded > QUIET && time - @busy_at > QUIET)
    end

    def listener_booted?(time)
      listening = time - @listening_since
      listening > BUSY_LISTENER || (listening > QUIET_LISTENER && time - @busy_at > QUIET_LISTENER)
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def cpu
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    end
  end
end
