# frozen_string_literal: true

module CaratRuntime
  # Lets the kernel merge equal pages.
  class Ksm < Setting
    named "ksm"

    SWITCH = "/sys/kernel/mm/ksm/run"

    def start
      return refuse("merging pages requires Linux 6.4 or later") unless CaratRuntime.allow_merging == 1

      running = File.readable?(SWITCH) && File.read(SWITCH).to_i == 1
      CaratRuntime.warn("ksm merges nothing until an administrator writes 1 to #{SWITCH}") unless running
      true
    end
  end
end
