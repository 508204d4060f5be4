# frozen_string_literal: true

# Shrinks arrays by one element at a time: the collector finds ever more garbage among live objects.
rounds = Integer(ARGV.fetch(0, '100'))
rounds.times do
  full = Array.new(100_000, &:to_s)
  full.pop until full.empty?
end
