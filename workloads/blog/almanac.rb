# frozen_string_literal: true

# Represents what a large application loads at boot and then only reads: translations, schemas, routes, tables.
#
# Small objects on purpose: they are in Ruby's heap pages, beside the free slots that a worker fills after the fork.
module Almanac
  ENTRY_BYTES = 840 # resident, measured on Ruby 3.1

  # Loads about this many megabytes of entries and keeps them.
  def self.load(megabytes)
    random = Random.new(2007)
    @entries = Array.new(megabytes * 1_000_000 / ENTRY_BYTES) { |number| entry(number, random) }
  end

  # An entry by its number.
  def self.[](number)
    @entries[number % @entries.size] unless @entries.empty?
  end

  def self.entry(number, random)
    { name: "entry #{number}", words: Array.new(4) { random.bytes(8).unpack1('H*') }, tags: { number => number.to_s } }
  end
  private_class_method :entry
end
