# frozen_string_literal: true

module CaratRuntime
  # The call at which a method is compiled.
  class YjitCallThreshold < YjitOption
    named "yjit_call_threshold"

    private

    def option
      "--yjit-call-threshold=#{value}"
    end
  end
end
