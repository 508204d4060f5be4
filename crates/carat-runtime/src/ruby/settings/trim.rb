# frozen_string_literal: true

module CaratRuntime
  # Returns free malloc memory to the kernel after full collections; see trim.rs.
  class Trim < Setting
    named "trim"

    def start
      running =
        case value
        when "idle" then CaratRuntime.trim_when_idle
        when "in-gc" then CaratRuntime.trim_in_gc
        else CaratRuntime.trim_after_full_gc
        end
      running == 1 || refuse("this malloc has no function that returns free memory")
    end
  end
end
