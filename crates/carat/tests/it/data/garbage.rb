# Objects that were kept in every way that we know, and no longer are. Each kind has a class of its own. While the collector does not
# run, only their holders are gone.
require 'delegate'
require 'digest'
require 'monitor'
require 'objspace'
require 'openssl'
require 'ostruct'
require 'set'
require 'stringio'
require 'strscan'
require 'timeout'
require 'zlib'

module Garbage
  MANY = 300
  FEW = 30

  def self.take(*values, **options, &block)
    [values, options, block].size
  end

  def self.dig(depth)
    depth.zero? ? 1 : dig(depth - 1)
  end

  def self.call(one)
    one.own
  end

  # An object that lives on, by name.
  def self.kept(name)
    (@kept ||= {})[name] ||= yield
  end

  def self.variables(owner, made)
    40.times { |n| owner.instance_variable_set("@of#{n}", made.new) }
    # The collector still marks the value of the last one that is removed from what has no room for it.
    owner.instance_variable_set(:@last, nil)
    40.times { |n| owner.remove_instance_variable("@of#{n}") }
    owner.remove_instance_variable(:@last)
  end

  # Memory of any size, each word of it the address of an object.
  def self.filled(made)
    (24..1200).step(8) do |bytes|
      Array.new(4) { ([made.new.to_s[/0x(\h+)/, 1].hex].pack('Q') * (bytes / 8)).byteslice(0, bytes - 1) << 'x' }.each(&:clear)
    end
  end

  # Memory full of addresses of objects, which is free for what is made next.
  def self.littered(made)
    filled(made)
    50.times { [Array.new(40) { made.new }, (1..40).to_h { |n| [n, made.new] }].each(&:clear) }
    yield
  end

  CODE = <<~RUBY
    lambda do |one, two = 2, *rest, three:, four: 4, five: [one], **others, &block|
      begin
        @one ||= Garbage.take(one, two, of: three, &block)
        [Math::PI, one&.size, rest.map { |six| [six, two, four] }, "\#{one} \#{others}", one =~ /x\#{two}/o]
      rescue ArgumentError, TypeError => error
        error
      ensure
        five << 1
      end
      case one when 'a', 'b' then 1 when :c then 2 else others end
    end
  RUBY

  # Code that is called, and never was.
  def self.code
    yield.tap { |code| 3.times { code.call('one', three: 3) {} } }
    yield
  end

  KINDS = {
    Array: ->(made) { Array.new(MANY) { made.new }.map!(&:itself).size },
    ArrayCleared: ->(made) { kept(:cleared) { [] }.concat(Array.new(MANY) { made.new }).clear },
    ArrayShifted: ->(made) { kept(:shifted) { [] }.concat(Array.new(MANY) { made.new }).shift(MANY).size },
    ArrayPopped: ->(made) { kept(:popped) { [] }.concat(Array.new(MANY) { made.new }).then { |all| MANY.times { all.pop } } },
    ArraySliced: ->(made) { kept(:sliced) { [] }.concat(Array.new(MANY) { made.new }).slice!(0, MANY).size },
    Hash: ->(made) { MANY.times.map { |n| [n, made.new] }.to_h.size },
    HashDeleted: ->(made) { kept(:deleted) { {} }.then { |all| MANY.times { |n| all[n] = made.new }; MANY.times { |n| all.delete(n) } } },
    HashShifted: ->(made) { kept(:hash_shifted) { {} }.then { |all| MANY.times { |n| all[n] = made.new }; all.shift until all.empty? } },
    HashSmall: ->(made) { kept(:small) { {} }.then { |all| MANY.times { |n| all[n % 5] = made.new; all.delete(n % 5) } } },
    HashSmallHalf: ->(made) { kept(:half) { {} }.then { |all| MANY.times { |n| all[n] = { gone: made.new, stays: 1 }.tap { |one| one.delete(:gone) } } } },
    HashKey: ->(made) { kept(:key) { {} }.then { |all| MANY.times { made.new.then { |one| all[one] = 1; all.delete(one) } } } },
    HashIdentity: ->(made) { kept(:identity) { {}.compare_by_identity }.then { |all| MANY.times { made.new.then { |one| all[one] = one; all.delete(one) } } } },
    HashDefault: ->(made) { kept(:default) { {} }.then { |all| MANY.times { all.default = made.new }; all.default = nil } },
    Set: ->(made) { kept(:set) { Set.new }.then { |all| MANY.times { made.new.then { |one| all << one; all.delete(one) } } } },
    Variable: ->(made) { variables(kept(:variable) { Object.new }, made) },
    VariableOfClass: ->(made) { variables(kept(:variable_of_class) { Class.new }, made) },
    VariableOfString: ->(made) { variables(kept(:variable_of_string) { +'' }, made) },
    ClassVariable: ->(made) { kept(:class_variable) { Class.new }.then { |one| MANY.times { one.class_variable_set(:@@of, made.new) }; one.remove_class_variable(:@@of) } },
    Constant: ->(made) { kept(:constant) { Module.new }.then { |one| 50.times { |n| one.const_set("C#{n}", made.new) }; 50.times { |n| one.send(:remove_const, "C#{n}") } } },
    ConstantRead: ->(made) { 20.times { |n| Object.const_set(:ReadOnce, made.new); eval("def read_once#{n}; ReadOnce; end; read_once#{n}", TOPLEVEL_BINDING); Object.send(:remove_const, :ReadOnce) } },
    GlobalVariable: ->(made) { MANY.times { $garbage = made.new }; $garbage = nil },
    Struct: ->(made) { kept(:struct) { Struct.new(:one, :two).new }.then { |pair| MANY.times { pair.one = made.new; pair.two = made.new }; pair.one = pair.two = nil } },
    Block: ->(made) { MANY.times.map { made.new.then { |one| -> { one } } }.each(&:call) },
    Method: ->(made) { MANY.times.map { made.new.method(:to_s) }.each(&:call).each(&:unbind) },
    Singleton: ->(made) { MANY.times { made.new.then { |one| one.define_singleton_method(:own) { 1 }; one.own; one.extend(Comparable) } } },
    MethodDefined: ->(made) { kept(:defined) { Class.new }.then { |one| MANY.times { held = made.new; one.send(:define_method, :own) { held }; one.new.own }; one.send(:define_method, :own) { 1 }; one.new.own } },
    MethodUndefined: ->(made) { kept(:undefined) { Class.new }.then { |one| MANY.times { |n| held = made.new; one.send(:define_method, "own#{n}") { held }; one.new.send("own#{n}"); one.send(:undef_method, "own#{n}") } } },
    ClassReloaded: ->(made) { 30.times { Object.send(:remove_const, :Reloaded) if Object.const_defined?(:Reloaded); eval("class ::Reloaded; ALL = {}; def self.own(one); @own = one; end; def go; ALL; [Reloaded, ALL]; end; end"); Reloaded.own(made.new); 5.times { Reloaded.new.go } } },
    AllocationTraced: ->(made) { ObjectSpace.trace_object_allocations { MANY.times { made.new } } },
    Enumerator: ->(made) { FEW.times { Array.new(10) { made.new }.each.then { |each| 3.times { each.next } } } },
    Lazy: ->(made) { MANY.times.lazy.map { made.new }.select(&:itself).first(20) },
    FiberWaiting: ->(made) { FEW.times { Fiber.new { held = Array.new(10) { made.new }; Fiber.yield; held.size }.resume } },
    FiberEnded: ->(made) { FEW.times { Fiber.new { held = Array.new(10) { made.new }; Fiber.yield; held.size }.then { |fiber| 2.times { fiber.resume } } } },
    FiberLocal: ->(made) { FEW.times { Fiber.new { Thread.current[:garbage] = made.new; Fiber.yield }.then { |fiber| 2.times { fiber.resume } } } },
    Thread: ->(made) { FEW.times { Thread.new { Thread.current[:held] = Array.new(10) { made.new } }.join } },
    ThreadWithFibers: ->(made) { Thread.new { FEW.times { Fiber.new { held = Array.new(10) { made.new }; Fiber.yield; held.size }.resume } }.join },
    ThreadVariable: ->(made) { MANY.times { Thread.current.thread_variable_set(:garbage, made.new) }; Thread.current.thread_variable_set(:garbage, nil) },
    ThreadLocal: ->(made) { MANY.times { Thread.current[:garbage] = made.new }; Thread.current[:garbage] = nil },
    ThreadKilled: ->(made) { FEW.times { Thread.new { held = Array.new(10) { made.new }; sleep; held }.then { |thread| Thread.pass until thread.stop?; thread.kill.join } } },
    ThreadRaised: ->(made) { FEW.times { Thread.new { Thread.current.report_on_exception = false; raise Array.new(10) { made.new }.size.to_s }.then { |thread| thread.join rescue 1 } } },
    Queue: ->(made) { kept(:queue) { Queue.new }.then { |queue| MANY.times { queue << made.new }; 9.times { queue.pop }; queue.clear } },
    Exception: ->(made) { MANY.times { begin; held = made.new; raise ArgumentError, 'x' if held; rescue ArgumentError => e; e.instance_variable_set(:@held, held); end } },
    NoMethod: ->(made) { MANY.times { begin; made.new.garbage; rescue NoMethodError => e; e.receiver; end } },
    Throw: ->(made) { MANY.times { catch(:garbage) { throw :garbage, made.new } } },
    Sorted: ->(made) { Array.new(MANY) { made.new }.sort_by(&:object_id).group_by(&:hash).each_slice(3).to_a },
    Finalizer: ->(made) { MANY.times { made.new.then { |one| ObjectSpace.define_finalizer(one, proc {}); ObjectSpace.undefine_finalizer(one) } } },
    WeakMap: ->(made) { kept(:weak) { ObjectSpace::WeakMap.new }.then { |weak| MANY.times { made.new.then { |one| weak[one] = one } } } },
    Arguments: ->(made) { MANY.times { take(made.new, made.new, of: made.new) {} } },
    Sent: ->(made) { MANY.times { made.new.public_send(:itself).instance_exec(made.new) { |one| one } } },
    Eval: ->(made) { 20.times { held = made.new; eval('other = held; -> { other }').call; binding.local_variable_set(:late, made.new) } },
    ClassCalled: ->(made) { 50.times { held = made.new; Class.new { define_method(:own) { held }; class_eval('def other; own; end') }.new.then { |one| 40.times { one.other } } } },
    SingletonCalled: ->(made) { 50.times { made.new.then { |one| def one.own; self; end; 40.times { call(one) } } } },
    ModuleCalled: ->(made) { 50.times { held = made.new; Module.new { define_singleton_method(:own) { held } }.then { |one| 40.times { call(one) } } } },
    EvalCalled: ->(made) { 50.times { |n| held = made.new; eval("->(one) { take(one, held, of: #{n}); call(one) }").then { |block| 40.times { block.call(held.dup.tap { |one| def one.own; 1; end }) } } } },
    Delegated: ->(made) { MANY.times { SimpleDelegator.new(made.new).to_s } },
    Written: ->(made) { MANY.times { StringIO.new.puts(made.new); format('%p', made.new) =~ /(G\w+)/ } },
    Monitor: ->(made) { kept(:monitor) { Monitor.new }.then { |monitor| MANY.times { monitor.synchronize { made.new } } } },
    Timeout: ->(made) { 20.times { Timeout.timeout(60) { Array.new(5) { made.new } } } },
    Replaced: ->(made) { MANY.times { made.new.then { |held| 'abc'.gsub(/b/) { held && 'x' } } } },
    OpenStruct: ->(made) { FEW.times { OpenStruct.new(own: made.new).own } },
    Marshal: ->(made) { MANY.times { Marshal.load(Marshal.dump(made.new)) } },
    Traced: ->(made) { TracePoint.new(:c_call) { |point| point.self }.enable { 20.times { made.new.to_s } } },
    Refined: ->(made) { FEW.times { held = made.new; Module.new { refine(String) { define_method(:garbage) { held } } } } },
    ClassUnnamed: ->(made) { 60.times { Class.new.then { |one| one.const_set(:OWN, made.new); one.instance_variable_set(:@own, made.new); one.class_variable_set(:@@own, made.new) } } },
    ModuleIncluded: ->(made) { 60.times { held = made.new; own = Module.new { define_method(:own) { held } }; Class.new { include own; prepend own.dup }.new.own } },
    StructsOfOpenSSL: ->(made) { littered(made) { kept(:openssl) { Array.new(40) { [OpenSSL::X509::Store.new, OpenSSL::SSL::SSLContext.new.tap(&:set_params), OpenSSL::Cipher.new('aes-256-gcm').encrypt.tap(&:random_key)] } } } },
    StructsOfZlib: ->(made) { littered(made) { kept(:zlib) { Array.new(20) { [Zlib::Deflate.new.tap { |one| one << 'x' * 1000 }, Zlib::Inflate.new.tap { |one| one << Zlib.deflate('x' * 1000)[0, 10] }] } } } },
    StructsOfDigests: ->(made) { littered(made) { kept(:digests) { Array.new(100) { [Digest::SHA256.new.update('x'), Random.new, Encoding::Converter.new('UTF-8', 'EUC-JP').tap { |one| one.convert('x') }] } } } },
    StructsOfScanners: ->(made) { littered(made) { kept(:scanners) { Array.new(200) { StringScanner.new('abc' * 9).tap { |one| one.scan(/a(b)/) } } } } },
    StructsOfFolders: ->(made) { littered(made) { kept(:folders) { Array.new(30) { Dir.open('/').tap(&:read) } } } },
    StructsOfFiles: ->(made) { littered(made) { kept(:files) { Array.new(40) { File.open('/proc/self/maps').tap(&:gets) } } } },
    StructsOfCode: ->(made) { littered(made) { kept(:code) { Array.new(20) { code { eval(CODE) } } } } },
    StructsOfLoadedCode: ->(made) { littered(made) { kept(:loaded) { Array.new(60) { code { RubyVM::InstructionSequence.load_from_binary(RubyVM::InstructionSequence.compile(CODE).to_binary).eval } } } } },
    StructsOfFibers: ->(made) { littered(made) { kept(:fibers) { Array.new(20) { Fiber.new { Fiber.yield }.tap(&:resume) } } } },
    StructsOfEnumerators: ->(made) { littered(made) { kept(:enumerators) { Array.new(20) { [1, 2].each.tap(&:next) } } } },
    StructsOfClasses: ->(made) { littered(made) { kept(:classes) { Array.new(20) { |n| Class.new { attr_accessor :one; define_method(:two) { n }; def to_s; super; end; include Comparable; prepend Module.new { def one; super; end }; const_set(:ONE, n); class_variable_set(:@@one, n) }.tap { |one| one.new.tap { |own| own.one = own.one.to_s + own.to_s } } } } } },
    StructsOfStructs: ->(made) { littered(made) { kept(:structs) { Array.new(40) { |n| [Struct.new(:one, :two, :three, :four).new(1), [1] * (n + 4), (1..n + 4).to_h { |one| [one, 1] }, Object.new.tap { |one| (n + 4).times { |own| one.instance_variable_set("@v#{own}", own) } }, Set[*1..n], n.to_s.match(/(\d)/), 3**(n * 9), Time.now, 1.method(:+), Comparable.instance_method(:==), binding, Mutex.new, Queue.new << n, ConditionVariable.new] } } } },
    StructsOfThreads: ->(made) { littered(made) { kept(:threads) { Array.new(8) { |n| Thread.new { Thread.current[:own] = n; Thread.current.thread_variable_set(:own, n); sleep }.tap { |one| one.name = "own#{n}"; Thread.pass until one.stop? } } } } },
    StructsOfWaiting: ->(made) { littered(made) { kept(:waiting) { queue, mutex, turn = Queue.new, Mutex.new, ConditionVariable.new; Array.new(4) { [Thread.new { queue.pop }, Thread.new { mutex.synchronize { turn.wait(mutex) } }, Thread.new { IO.pipe.first.read }, Thread.new { IO.select([IO.pipe.first]) }] }.flatten.each { |one| Thread.pass until one.stop? } } } },
    StructsOfNames: ->(made) { littered(made) { kept(:names) { Array.new(60) { |n| ENV["GARBAGE#{n}"] = 'x' * n; eval("$garbage_#{n} = 1; Garbage_#{n} = 2; def garbage_#{n}; @garbage_#{n} = 3; end"); ["garbage_s#{n}".to_sym, "garbage #{n}".to_sym] } } } },
    StructsOfHooks: ->(made) { littered(made) { kept(:hooks) { trap('USR2') { 1 }; at_exit { 1 }; Array.new(20) { Object.new.tap { |one| ObjectSpace.define_finalizer(one, proc { 1 }) } } + [ObjectSpace::WeakMap.new, (ObjectSpace::WeakKeyMap.new if defined?(ObjectSpace::WeakKeyMap)), TracePoint.new(:call) { 1 }] } } },
    StructsOfRequires: ->(made) { littered(made) { kept(:requires) { %w[prime matrix English abbrev shellwords find pstore tsort benchmark observer csv rexml/document net/http logger psych ripper coverage etc fcntl nkf socket].map { |name| require(name) rescue LoadError } } } },
    StructsOfIO: ->(made) { littered(made) { kept(:io) { Array.new(10) { [IO.pipe, Dir.open('/'), File.open('/proc/self/stat', 'r:utf-8:utf-16le').tap(&:getc), File.stat('/'), StringIO.new('x').tap(&:getc)] } } } },
    StructsOfMutexes: ->(made) { kept(:mutexes) { Array.new(40) { Mutex.new.tap { |one| Thread.new { Array.new(5) { made.new }.then { |held| one.synchronize { held.size } } }.join } } } },
    Curried: ->(made) { MANY.times { ->(one, _) { one }.curry[made.new][made.new] } }
  }.freeze
  CLASSES = KINDS.keys.map { |name| [name, Object.const_set("Garbage#{name}", Class.new)] }.to_h.freeze

  # Makes the garbage, and overwrites what it left on the stack.
  def self.make
    GC.disable
    KINDS.each { |name, kind| kind.call(CLASSES.fetch(name)) }
    200.times { |n| dig(n) }
    1
  end

  # What the collector leaves of it, by class.
  def self.left
    GC.enable
    4.times { dig(300) && GC.start }
    CLASSES.values.map { |made| [made.name, ObjectSpace.each_object(made).count] }.to_h
  end

  # A child of which the parent's threads, and what they have, are gone. It makes garbage of its own, and says what is left when it is asked.
  def self.forked
    silent = IO.pipe.first
    blocked = Mutex.new.lock
    work = [-> { sleep }, -> { sleep 10_000 }, -> { blocked.lock }, -> { silent.read }, -> { Fiber.new { sleep }.resume }, -> { Queue.new.pop }]
    threads = work.product([1, 2]).map do |wait, _|
      Thread.new { Thread.current[:held] = Array.new(10) { CLASSES[:Thread].new }; held = Array.new(10) { CLASSES[:Thread].new }; wait.call; held }
    end
    Thread.pass until threads.all? { |thread| thread.status == 'sleep' }
    threads.clear
    fork do
      Thread.new { sleep }
      make
      yield
    end
  end
end
