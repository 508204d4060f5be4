# What jemalloc says inside, and leaks to be found: loaded into the program of outside.rb.
require 'fiddle'

module Jemalloc
  C = Fiddle.dlopen(nil)
  POINTER = Fiddle::TYPE_VOIDP
  NUMBER = -Fiddle::TYPE_LONG_LONG
  SIZE = Fiddle::TYPE_SIZE_T
  CONTROL = Fiddle::Function.new(C['mallctl'], [POINTER] * 4 + [SIZE], Fiddle::TYPE_INT)
  ALLOCATE = Fiddle::Function.new(C['malloc'], [SIZE], NUMBER)
  FREE = Fiddle::Function.new(C['free'], [NUMBER], Fiddle::TYPE_VOID)
  # `MALLCTL_ARENAS_ALL`: the sum of all arenas.
  ALL = 'stats.arenas.4096'.freeze
  # The same memory for every question, so that asking does not change the answer.
  VALUE = ("\0" * 8).dup
  LENGTH = [8].pack('Q')
  EPOCH = [1].pack('Q')
  FIGURES = {
    allocated: ['stats.allocated', 'Q'], active: ['stats.active', 'Q'], retained: ['stats.retained', 'Q'],
    dirty_pages: ["#{ALL}.pdirty", 'Q'], muzzy_pages: ["#{ALL}.pmuzzy", 'Q'], page: ['arenas.page', 'Q'],
    dirty_ms: ['arenas.dirty_decay_ms', 'q'], muzzy_ms: ['arenas.muzzy_decay_ms', 'q'], background: ['background_thread', 'C']
  }.freeze

  module_function

  def read(name, format)
    LENGTH[0, 8] = [{ 'L' => 4, 'C' => 1 }.fetch(format, 8)].pack('Q')
    code = CONTROL.call(name, VALUE, LENGTH, nil, 0)
    raise "#{name}: error #{code}" unless code.zero?

    VALUE.unpack(format)[0]
  end

  def renew
    CONTROL.call('epoch', nil, nil, EPOCH, 8)
  end

  def figures
    renew
    values = {}
    FIGURES.each { |key, (name, format)| values[key] = read(name, format) }
    JSON.generate(values)
  end

  # Slabs: number of the class, size, regions in use, slabs. Large regions: size, number.
  def classes
    renew
    slabs = Array.new(read('arenas.nbins', 'L')) do |i|
      [read("arenas.bin.#{i}.size", 'Q'), read("#{ALL}.bins.#{i}.curregs", 'Q'), read("#{ALL}.bins.#{i}.curslabs", 'Q')]
    end
    large = Array.new(read('arenas.nlextents', 'L')) do |i|
      [read("arenas.lextent.#{i}.size", 'Q'), read("#{ALL}.lextents.#{i}.curlextents", 'Q')]
    end
    JSON.generate(slabs: slabs.reject { |slab| slab[1].zero? && slab[2].zero? }, large: large.reject { |one| one[1].zero? })
  end

  def purge
    CONTROL.call('arena.4096.purge', nil, nil, nil, 0)
  end

  # Most of many strings are freed again.
  def fragment
    all = Array.new(60_000) { |i| 'y' * (700 + i % 900) }
    $fragments = all.each_slice(7).map(&:first)
    all = nil
    4.times { GC.start }
    1
  end

  def leak(number, bytes)
    number.times { ALLOCATE.call(bytes) }
    1
  end

  # Threads that allocate and free without a pause, and hold about as much all the time.
  def churn
    GC.disable
    $churn = Array.new(3) do
      Thread.new do
        texts = Array.new(60) { |i| 'z' * (100 + i * 53) }
        kept = Array.new(5000) { |i| String.new << texts[i % 60] }
        i = 0
        loop do
          i += 1
          kept[i * 7 % 5000].clear << texts[i * 11 % 60]
        end
      end
    end
    sleep 0.5
    1
  end

  # Answers lines without evaluating them, which would allocate.
  def serve
    while (line = $stdin.gets)
      puts(line.start_with?('classes') ? classes : figures)
      $stdout.flush
    end
  end

  # Another copy of the library, from a file of another name, with so many regions in use that nothing else holds.
  def load_copy(path, number, bytes)
    $copy = Fiddle.dlopen(path)
    allocate = Fiddle::Function.new($copy['malloc'], [SIZE], NUMBER)
    $addresses = Array.new(number) { allocate.call(bytes) }
    1
  end
end
