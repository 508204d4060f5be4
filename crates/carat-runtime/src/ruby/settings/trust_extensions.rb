# frozen_string_literal: true

module CaratRuntime
  # Lets `compact` and `prepare_fork` compact although an extension is loaded that is listed as unfit.
  class TrustExtensions < Setting
    named "trust_extensions"

    def start
      Extensions.trusted = true
    end
  end
end
