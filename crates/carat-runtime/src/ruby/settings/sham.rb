# frozen_string_literal: true

module CaratRuntime
  # Detects the end of the boot like `compact=boot` and then does nothing: the control for what detecting it costs.
  class Sham < BootSetting
    named "sham"

    def at_boot?
      value == "on"
    end

    def booted
      at_boot?
    end
  end
end
