# frozen_string_literal: true

module CaratRuntime
  # Whether code is thrown away when its addresses are used up.
  class YjitCodeGc < YjitOption
    named "yjit_code_gc"

    private

    def option
      "--yjit-code-gc"
    end
  end
end
