# frozen_string_literal: true

# Keeps a known amount of memory, to test whether the difference is found.
module Plant
  MEGABYTE = 1_000_000

  # One filled string per megabyte: memory that is only reserved would not be resident.
  def self.grow(megabytes)
    @kept = Array.new(megabytes) { 'x' * MEGABYTE }
  end
end
