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
  NAME_OF_EPOCH = 'epoch'.freeze
  # The same memory for every question, so that asking does not change the answer: Fiddle makes a pointer of each string.
  VALUE = ("\0" * 8).dup
  LENGTH = [8].pack('Q')
  EPOCH = [1].pack('Q')
  POINTERS = Hash.new { |all, text| all[text] = Fiddle::Pointer[text] }.compare_by_identity
  FIGURES = {
    allocated: ['stats.allocated', 'Q'], active: ['stats.active', 'Q'], retained: ['stats.retained', 'Q'],
    dirty_pages: ["#{ALL}.pdirty", 'Q'], muzzy_pages: ["#{ALL}.pmuzzy", 'Q'], page: ['arenas.page', 'Q'],
    dirty_ms: ['arenas.dirty_decay_ms', 'q'], muzzy_ms: ['arenas.muzzy_decay_ms', 'q'], background: ['background_thread', 'C']
  }.freeze

  module_function

  def read(name, format)
    LENGTH.setbyte(0, format == 'L' ? 4 : format == 'C' ? 1 : 8)
    code = CONTROL.call(POINTERS[name], POINTERS[VALUE], POINTERS[LENGTH], nil, 0)
    raise "#{name}: error #{code}" unless code.zero?

    VALUE.unpack(format)[0]
  end

  def renew
    CONTROL.call(POINTERS[NAME_OF_EPOCH], nil, nil, POINTERS[EPOCH], 8)
  end

  def figures
    renew
    values = {}
    FIGURES.each { |key, (name, format)| values[key] = read(name, format) }
    JSON.generate(values)
  end

  # Slabs: size, regions in use, slabs. Large regions: size, number.
  def classes
    renew
    all = %i[slabs large].map { |kind| [kind, names[kind].map { |of_one| of_one.map { |name, format| read(name, format) } }] }
    JSON.generate(all.map { |kind, rows| [kind, rows.reject { |row| row.drop(1).all?(&:zero?) }] }.to_h)
  end

  def names
    @names ||= {
      slabs: Array.new(read('arenas.nbins', 'L')) do |i|
        [["arenas.bin.#{i}.size", 'Q'], ["#{ALL}.bins.#{i}.curregs", 'Q'], ["#{ALL}.bins.#{i}.curslabs", 'Q']]
      end,
      large: Array.new(read('arenas.nlextents', 'L')) do |i|
        [["arenas.lextent.#{i}.size", 'Q'], ["#{ALL}.lextents.#{i}.curlextents", 'Q']]
      end
    }
  end

  def purge
    CONTROL.call('arena.4096.purge', nil, nil, nil, 0)
  end

  # Many strings, of which most are freed again; later, so that no stack has their addresses.
  def fragment
    $all = Array.new(60_000) { |i| 'y' * (700 + i % 900) }
    $fragments = $all.each_slice(7).map(&:first)
    1
  end

  def settle
    $all = nil
    4.times { GC.start }
    1
  end

  def leak(number, bytes)
    number.times { ALLOCATE.call(bytes) }
    1
  end

  # Threads that allocate and free without a pause, and hold about as much all the time: so many strings of 60 sizes.
  def churn(number = 5000, least = 100, step = 53)
    GC.disable
    $churn = Array.new(2) do
      Thread.new do
        texts = Array.new(60) { |i| 'z' * (least + i * step) }
        kept = Array.new(number) { |i| String.new << texts[i % 60] }
        i = 0
        loop do
          i += 1
          kept[i * 7 % number].clear << texts[i * 11 % 60]
          # Whoever asks need not wait until the time of a thread is over.
          Thread.pass if (i % 200).zero?
        end
      end
    end
    sleep 0.5
    1
  end

  # The same with strings that have extents of their own, so that free ones become unused pages.
  def churn_extents
    churn(400, 20_000, 1000)
  end

  # Returns all unused pages, again and again.
  def keep_purging
    $purging = Thread.new { loop { purge && sleep(0.003) } }
    1
  end

  # Forks processes that end at once, one after the other.
  def keep_forking
    $forking = Thread.new { loop { Process.wait(fork { exit!(true) }) && sleep(0.01) } }
    1
  end

  # How long mmap, a write and munmap take, in microseconds, for so many seconds.
  def latency(seconds)
    map = Fiddle::Function.new(C['mmap'], [NUMBER, SIZE, *[Fiddle::TYPE_INT] * 3, Fiddle::TYPE_LONG], NUMBER)
    write = Fiddle::Function.new(C['memset'], [NUMBER, Fiddle::TYPE_INT, SIZE], NUMBER)
    unmap = Fiddle::Function.new(C['munmap'], [NUMBER, SIZE], Fiddle::TYPE_INT)
    GC.disable
    times = []
    now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
    last = now.call + (seconds * 1e9).to_i
    while (start = now.call) < last
      piece = map.call(0, 65_536, 3, 0x22, -1, 0)
      write.call(piece, 1, 1)
      unmap.call(piece, 65_536)
      times << (now.call - start)
      sleep 0.000_05
    end
    GC.enable
    times.sort!
    at = ->(share) { (times[((times.size - 1) * share).to_i] / 1000.0).round(1) }
    JSON.generate({ n: times.size, p50: at[0.5], p99: at[0.99], longest: at[1.0] })
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
