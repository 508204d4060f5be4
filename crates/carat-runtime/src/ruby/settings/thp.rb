# frozen_string_literal: true

module CaratRuntime
  # Allows or forbids transparent huge pages for this process.
  class HugePages < Setting
    named "thp"

    def start
      done = value == "on" ? CaratRuntime.allow_huge_pages : CaratRuntime.forbid_huge_pages
      done == 1 || refuse("this kernel has no such switch per process")
    end
  end
end
