# frozen_string_literal: true

require 'fiddle'

# A deliberate leak that Ruby cannot see: memory from malloc that is never freed.
module Leak
  BYTES = 16

  # Leaks 16 bytes; glibc uses 32 for them, jemalloc 16.
  def self.once
    Fiddle.malloc(BYTES)
  end
end
