# frozen_string_literal: true

module CaratRuntime
  # MiB of addresses for machine code.
  class YjitExecMem < YjitOption
    named "yjit_exec_mem"

    private

    def option
      "--yjit-exec-mem-size=#{value}"
    end
  end
end
