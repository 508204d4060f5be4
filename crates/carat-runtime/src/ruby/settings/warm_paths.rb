# frozen_string_literal: true

module CaratRuntime
  # The paths that `warm` requests in turn.
  class WarmPaths < Setting
    named "warm_paths"

    def paths
      value.split(",").map(&:strip).reject(&:empty?)
    end

    # Reports that `warm`, which says why, has not requested them.
    def refused
      CaratRuntime.set_bit(:refused, @bit)
    end

    def preloads?
      true
    end
  end
end
