# frozen_string_literal: true

module CaratRuntime
  # This process was started with a small limit for its main stack. Restores the limit of before for the programs that the
  # server starts; a server that replaces itself gets the small one again.
  class MainStack < Setting
    named "main_stack"

    def start
      @own, @inherited = value.split(":").map { |bytes| bytes == "unlimited" ? Process::RLIM_INFINITY : Integer(bytes) }
      @process = Process.pid
      soft, hard = Process.getrlimit(:STACK)
      return refuse("the hard limit of the stack is #{hard} bytes") if hard < @own
      # A Ruby that the server has started.
      return unless soft == @own

      set(@inherited)
      true
    end

    def execs?
      true
    end

    # A forked child that executes a program is no restart.
    def before_exec
      return unless Process.pid == @process

      set(@own)
      -> { set(@inherited) }
    end

    private

    def set(bytes)
      Process.setrlimit(:STACK, bytes, Process.getrlimit(:STACK).last)
    end
  end
end
