# frozen_string_literal: true

module CaratRuntime
  # Collects once when the process has booted, at the moment of `compact=boot`: its control.
  class CollectAtBoot < BootSetting
    named "gc"

    def booted
      return unless at_boot?

      GC.start
      true
    end
  end
end
