# frozen_string_literal: true

# Keeps a known amount of memory, so that a test can ask whether it is found.
module Plant
  MEGABYTE = 1_000_000

  # One string per megabyte, written to its end: memory that was only reserved would not be resident.
  def self.grow(megabytes)
    @kept = Array.new(megabytes) { 'x' * MEGABYTE }
  end
end
