# A process with a varied heap that answers lines of Ruby, and knows the truth about itself. Between answers it is blocked
# in read(2), so that its memory is at rest.
require 'json'
require 'objspace'
%w[set optparse erb tempfile open3 uri yaml time digest].each { |library| require library }

class Post
  attr_accessor :title, :body, :tags, :meta

  def initialize(number)
    @title = "post #{number}"
    @body = 'lorem ipsum dolor ' * (number % 40)
    @tags = [:a, number, "t#{number}"]
    @meta = { id: number, at: Time.at(number) }
  end
end

# Instance variables that do not fit its slot.
class Wide
  def initialize(number)
    12.times { |index| instance_variable_set("@v#{index}", number + index) }
  end
end

Pair = Struct.new(:left, :right)
Six = Struct.new(:a, :b, :c, :d, :e, :f)
module Deep
  class Inner
    class Node
      attr_accessor :following
    end
  end
end

N = Integer(ENV.fetch('N', '20000'))
KEEP = [
  Array.new(N) { |i| Post.new(i) }, Array.new(N / 4) { |i| Wide.new(i) }, Array.new(N / 2) { |i| Pair.new(i, "right #{i}") },
  Array.new(N / 4) { |i| Six.new(i, 2, 3, 4, 5, "s#{i}") }, Array.new(N / 2) { Deep::Inner::Node.new },
  Array.new(N / 4) { |i| Hash[(0..(i % 30)).map { |k| ["k#{k}", k] }] }, Array.new(20) { |i| 'x' * (200_000 + i) },
  Array.new(3000) { |i| 1e300 + i * 1e290 }, Array.new(2000) { |i| 3**(200 + i % 50) }, Array.new(2000) { |i| -> { i } },
  Array.new(200) { |i| /x#{i}y+/ }, Array.new(1000) { |i| "abc#{i}".match(/(\d+)/) }
]
nameless = Class.new(Post)
KEEP << Array.new(500) { |i| nameless.new(i) }
SINGLE = 'with a singleton class'.dup
def SINGLE.hi; end
THREADS = Array.new(3) do |t|
  Thread.new do
    all = Array.new(2000) { |i| "living #{t} #{i} " * 10 }
    Thread.current[:some] = all.select.with_index { |_, i| (i % 3).zero? }
    all = nil
    sleep
  end
end
200_000.times { |i| "garbage #{i}" * 4 }
300.times { |i| KEEP[0][i * 7 % N] = nil }
GC.start

module Truth
  COUNT = {}
  STAT = {}
  CLASS = Kernel.instance_method(:class)
  NAME = Module.instance_method(:name)

  module_function

  # What the reader must agree with, before anything is allocated.
  def slots
    ObjectSpace.count_objects(COUNT)
    GC.stat(STAT)
    JSON.generate({ ruby: RUBY_VERSION, count: COUNT, stat: STAT })
  end

  def classes
    counts = Hash.new(0)
    ObjectSpace.each_object(BasicObject) do |object|
      klass = CLASS.bind_call(object)
      counts[klass] += 1
    end
    named = Hash.new(0)
    counts.each { |klass, count| named[NAME.bind_call(klass)] += count if NAME.bind_call(klass) }
    JSON.generate(named)
  end
end
# The first call fills caches.
Truth.slots
Truth.classes
GC.start

$stdout.sync = true
puts $$
while (line = $stdin.gets)
  puts eval(line, TOPLEVEL_BINDING).to_s.lines.first.to_s.chomp
end
