# frozen_string_literal: true

module CaratRuntime
  # This process was started with a small limit for its main stack. Restores the limit of before for the programs that the
  # server starts; a Ruby that serves instead of this process gets the small one again.
  class MainStack < Setting
    named "main_stack"

    def start
      @own, @inherited = value.split(":").map { |bytes| bytes == "unlimited" ? Process::RLIM_INFINITY : Integer(bytes) }
      soft, hard = Process.getrlimit(:STACK)
      return refuse("the hard limit of the stack is #{hard} bytes") if hard < @own
      # A Ruby that was started with the settings and without this limit.
      return unless soft == @own

      set(@inherited)
      true
    end

    def hands_on?
      true
    end

    def hand_on(launch)
      hard = Process.getrlimit(:STACK).last
      # A limit above it would fail the launch (setrlimit(2)).
      launch.limit(:rlimit_stack, @own, hard) if hard >= @own
    end

    private

    def set(bytes)
      Process.setrlimit(:STACK, bytes, Process.getrlimit(:STACK).last)
    end
  end
end
