# frozen_string_literal: true

module CaratRuntime
  # Calls the runtime at every fork: before it in the parent, after it in the child.
  module ForkHook
    # From Ruby 3.1 on every fork goes through Process._fork.
    module Underlying
      def _fork
        CaratRuntime.before_fork
        pid = super
        CaratRuntime.in_child if pid.zero?
        pid
      end
    end

    # Before that, several methods fork by themselves.
    module Older
      def fork
        CaratRuntime.before_fork
        if block_given?
          super do
            CaratRuntime.in_child
            yield
          end
        else
          pid = super
          CaratRuntime.in_child if pid.nil?
          pid
        end
      end
    end

    # Process.daemon forks without Process._fork. Its parent exits, so there is nothing to share and to prepare.
    module Daemon
      def daemon(*arguments)
        result = super
        CaratRuntime.in_child
        result
      end
    end

    def self.install
      Process.singleton_class.prepend(Daemon)
      return Process.singleton_class.prepend(Underlying) if Process.respond_to?(:_fork)

      [Process, Kernel].each { |place| place.singleton_class.prepend(Older) }
      # A module prepended to Kernel would not reach Object before Ruby 3.0; one included into Object does.
      Object.include(Older)
      Object.send(:private, :fork)
    end
  end
end
