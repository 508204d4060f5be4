# What glibc says inside, and leaks to be found: loaded into the program of outside.rb.
require 'fiddle'

module Malloc
  C = Fiddle.dlopen(nil)
  POINTER = Fiddle::TYPE_VOIDP
  # Addresses are integers: a Fiddle::Pointer would hold what it points at.
  NUMBER = -Fiddle::TYPE_LONG_LONG
  INT = Fiddle::TYPE_INT

  def self.function(name, arguments, result)
    Fiddle::Function.new(C[name], arguments, result)
  end

  ALLOCATE = function('malloc', [Fiddle::TYPE_SIZE_T], NUMBER)
  COPY = function('memcpy', [NUMBER, POINTER, Fiddle::TYPE_SIZE_T], NUMBER)
  FREE = function('free', [NUMBER], Fiddle::TYPE_VOID)
  OPEN = function('fopen', [POINTER, POINTER], NUMBER)
  CLOSE = function('fclose', [NUMBER], INT)
  INFO = function('malloc_info', [INT, NUMBER], INT)
  TRIM = function('malloc_trim', [Fiddle::TYPE_SIZE_T], INT)
  BREAK = function('sbrk', [Fiddle::TYPE_LONG_LONG], NUMBER)
  MAP = function('mmap', [NUMBER, Fiddle::TYPE_SIZE_T, INT, INT, INT, Fiddle::TYPE_LONG_LONG], NUMBER)
  KEY = function('pthread_key_create', [POINTER, NUMBER], INT)
  SET = function('pthread_setspecific', [INT, NUMBER], INT)

  module_function

  # malloc_info(3) of every arena and of mapped chunks.
  def info(path)
    stream = OPEN.call(path, 'w')
    INFO.call(0, stream)
    CLOSE.call(stream)
    text = File.read(path)
    heaps = text.scan(/<heap nr="\d+">.*?<\/heap>/m).map { |heap| arena(heap) }
    mapped = text[/.*<\/heap>(.*)/m, 1][/<total type="mmap" count="(\d+)" size="(\d+)"/] && [$1.to_i, $2.to_i]
    JSON.generate({ heaps: heaps, mapped: mapped })
  end

  def arena(heap)
    total = ->(type) { (heap[/<total type="#{type}" count="(\d+)" size="(\d+)"/] && [$1.to_i, $2.to_i]) || [0, 0] }
    { system: heap[/<system type="current" size="(\d+)"/, 1].to_i, free: total['rest'][1], chunks: total['rest'][0], fast: total['fast'][1] }
  end

  def fragment
    # Long strings between which short ones stay.
    all = Array.new(60_000) { |i| ['a' * (600 + i % 300), i % 40 == 0 ? 'b' * 300 : nil] }
    $fragments = all.map(&:last).compact
    all = nil
    GC.start
    1
  end

  def trim
    TRIM.call(0)
  end

  # A page behind the program break, so that the main arena goes on elsewhere.
  def block_break
    start = BREAK.call(0)
    page = (start + 4095) / 4096 * 4096
    # PROT_NONE; private, anonymous, at this address
    raise 'no page behind the break' unless MAP.call(page, 4096, 0, 0x2 | 0x20 | 0x10, -1, 0) == page

    1
  end

  # Nobody keeps the addresses.
  def leak(count)
    count.times { ALLOCATE.call(100) }
    GC.start
    1
  end

  # Matches whose positions lie in chunks in which the address of an object was left that is garbage by now.
  def matches(count)
    left = Array.new(count) { Left.new }
    chunks = left.map do |object|
      chunk = ALLOCATE.call(32)
      COPY.call(chunk + 16, [Fiddle.dlwrap(object)].pack('Q'), 8)
      chunk
    end
    chunks.each { |chunk| FREE.call(chunk) }
    $matches = Array.new(count) { 'ab'.match(/b/) }
    1
  end

  # A thread that keeps chunks in thread-local storage.
  def leak_in_thread(count)
    ready = Queue.new
    $leaker = Thread.new do
      Thread.current.name = 'leaker'
      keep(count)
      ready << 1
      sleep
    end
    ready.pop
    GC.start
    1
  end

  def keep(count)
    table = ALLOCATE.call(count * 8)
    addresses = Array.new(count) { ALLOCATE.call(200) }
    COPY.call(table, addresses.pack('Q*'), count * 8)
    key = "\0" * 8
    KEY.call(key, 0)
    SET.call(key.unpack1('L'), table)
  end
end

class Left; end

class Leaky
  def initialize
    100.times { |number| instance_variable_set("@value#{number}", number) }
  end
end
