# frozen_string_literal: true

# Grows arrays by one element at a time: the collector marks ever longer arrays of live objects.
rounds = Integer(ARGV.fetch(0, '100'))
rounds.times do
  grown = []
  100_000.times { |number| grown << number.to_s }
end
