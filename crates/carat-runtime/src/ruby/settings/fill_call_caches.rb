# frozen_string_literal: true

module CaratRuntime
  # Before the first fork of a preloaded server: call sites without a cache get one that no call matches, so that a full GC
  # of Ruby 3.3 does not write to them.
  class FillCallCaches < Setting
    named "fill_call_caches"

    # Has the methods by which the native half learns where call sites are, and the class to which the cache belongs.
    class Specimen
      # Number of call sites of each method. Of the first one only the first is called.
      SITES = { called: 41, idle: 67 }.freeze

      def site(*); end
      class_eval("def called(all); site; if all; #{"site;" * 40} end; end; def idle; #{"site;" * 67} end",
                 __FILE__, __LINE__ - 1)
    end

    # Early, so that the cache is old at the fork.
    def start
      return needless unless CaratRuntime.rewrites_call_caches == 1

      Specimen.new.called(false)
      # Nothing else becomes an object of the class.
      Specimen.singleton_class.send(:undef_method, :new, :allocate)
      Specimen::SITES.each do |method, sites|
        wrapper = RubyVM::InstructionSequence.of(Specimen.instance_method(method))
        CaratRuntime.pin(wrapper)
        CaratRuntime.learn_call_sites(wrapper, sites)
      end
      nil
    end

    def before_fork
      return if @filled || !CaratRuntime.preloaded? || CaratRuntime.rewrites_call_caches != 1

      @filled = true
      filled = CaratRuntime.fill_call_caches(Specimen)
      return refuse("this Ruby keeps its call sites in an unknown way") if filled.negative?

      CaratRuntime.count(:filled_call_caches, filled)
      true
    end

    # It may fork others later, as Puma's `fork_worker` does.
    def own_application
      @filled = false
      nil
    end

    def preloads?
      true
    end
  end
end
