# frozen_string_literal: true

module CaratRuntime
  # Lets the kernel merge equal pages of the workers. From the first fork on, when the heap is prepared: what changes while
  # the server boots is not worth the kernel's time. Children inherit it.
  class Ksm < Setting
    named "ksm"

    SWITCH = "/sys/kernel/mm/ksm/run"

    def before_fork
      return if @tried

      @tried = true
      return refuse("merging pages requires Linux 6.4 or later") unless CaratRuntime.allow_merging == 1

      # Where it cannot be read, as in many containers, it may run.
      return true if !File.readable?(SWITCH) || File.read(SWITCH).to_i == 1

      refuse("nothing is merged until an administrator writes 1 to #{SWITCH}")
    end

    def forks?
      true
    end
  end
end
