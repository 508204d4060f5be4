# frozen_string_literal: true

# Runs in a Ruby with the probe and prints the rows of bench/allocations.rb.

LOOPS = {
  'Object.new' => [200_000, -> { Object.new }],
  'a string of 100 bytes' => [100_000, -> { 'x' * 100 }],
  'an array of 16' => [100_000, -> { [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5] }]
}.freeze

# The page of this process, as docs/reference/wire.md describes it.
class OwnPage
  def initialize
    @file = File.open(Dir["#{ENV.fetch('CARAT_PAGES')}/#{Process.pid}-*.page"].first, 'r+b')
  end

  # Samples for so long; 1 ends it. The second answer comes after the first one was followed.
  def sample(nanoseconds)
    @file.pwrite([nanoseconds].pack('Q'), 88)
    2.times { answer }
  end

  private

  def answer
    number = (@file.pread(4, 64).unpack1('L') + 1) & 0xffffffff
    @file.pwrite([number].pack('L'), 64)
    sleep 0.001 while (@file.pread(4, 72).unpack1('L') - number) & 0xffffffff > 0x7fffffff
  end
end

def nanoseconds_each(count, block)
  GC.start
  before = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  left = count
  while left.positive?
    block.call
    left -= 1
  end
  (Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) - before).fdiv(count)
end

def median(figures)
  sorted = figures.sort
  (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2.0
end

page = OwnPage.new
pairs = LOOPS.transform_values { [] }
Integer(ENV.fetch('ROUNDS')).times do
  plain = LOOPS.transform_values { |count, block| nanoseconds_each(count, block) }
  page.sample(600 * 1_000_000_000)
  LOOPS.each { |what, (count, block)| pairs[what] << [plain[what], nanoseconds_each(count, block)] }
  page.sample(1)
end
pairs.each do |what, found|
  ratios = found.map { |plain, sampled| sampled / plain }
  figures = [found.map(&:first), found.map(&:last), found.map { |plain, sampled| sampled - plain }]
  cells = figures.map { |times| format('%.0f ns', median(times)) }
  puts "| #{[ENV.fetch('NAME'), what, *cells, format('%.2f (%.2f to %.2f)', median(ratios), ratios.min, ratios.max), found.size].join(' | ')} |"
end
