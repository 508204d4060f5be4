# Objects that are kept in ten ways, each of a class of its own. HOLDERS has the address of what alone keeps them.
class Keepsake; def initialize(number); @name = "keepsake #{number} with a long enough name"; end; end
%w[Cached Logged Heard Ticketed Stored Rowed Bound Local Listed].each { |name| Object.const_set(name, Class.new(Keepsake)) }
Couple = Struct.new(:left, :right)
class Cache; @store = {}; def self.add(number); @store["key #{number}"] = Cached.new(number); end; end
class Audit; def initialize; @entries = []; end; def add(one); @entries << one; end; CURRENT = new; end
class Registry; @@rows = []; def self.add(one); @@rows << one; end; def self.rows; @@rows; end; end
module Deep; module Settings; STORE = { list: { sessions: [] } }; end; end
class Final; end
$subscribers = []
FINALS = []
WEAK = ObjectSpace::WeakMap.new
def subscribe(heard); $subscribers << proc { heard }; end
def finalizer_for(bound); proc { bound }; end
def wait_with(count); kept = Array.new(count) { |number| Local.new(number) }; $waiting = true; Thread.stop; kept.size; end
COUNT = 2000
COUNT.times do |number|
  Cache.add(number)
  Audit::CURRENT.add(Logged.new(number))
  subscribe(Heard.new(number))
  (Thread.current[:tickets] ||= []) << Ticketed.new(number)
  Deep::Settings::STORE[:list][:sessions] << Stored.new(number)
  Registry.add(Rowed.new(number))
  final = Final.new
  ObjectSpace.define_finalizer(final, finalizer_for(Bound.new(number)))
  FINALS << final
  (@pairs ||= []) << Couple.new(Listed.new(number), nil)
  WEAK[FINALS.last] = $subscribers.last
end
$waiter = Thread.new { wait_with(COUNT) }
# A block in C on the stack of a thread, as wherever code iterates over an Enumerable.
$slicer = Thread.new { (1..3).each_slice(2) { Thread.stop } }
sleep 0.01 until $waiting && $waiter.stop? && $slicer.stop?
def address(object); ObjectSpace.dump(object)[/0x\h+/]; end
HOLDERS = {
  Cached: address(Cache.instance_variable_get(:@store)), Logged: address(Audit::CURRENT.instance_variable_get(:@entries)),
  Heard: address($subscribers), Ticketed: address(Thread.current[:tickets]), Stored: address(Deep::Settings::STORE[:list][:sessions]),
  Rowed: address(Registry.rows), Couple: address(@pairs)
}
