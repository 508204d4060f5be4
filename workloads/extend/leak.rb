# frozen_string_literal: true

require 'fiddle'

# A deliberate leak that Ruby cannot see: memory from malloc that nobody frees.
module Leak
  BYTES = 16

  # Takes 16 bytes for good; glibc hands out 32 for them, jemalloc 16.
  def self.once
    Fiddle.malloc(BYTES)
  end
end
