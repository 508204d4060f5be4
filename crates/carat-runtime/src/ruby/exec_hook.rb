# frozen_string_literal: true

module CaratRuntime
  # Hands the settings on where this process replaces itself or starts a program: see CaratRuntime.hand_on.
  module ExecHook
    # No keywords: Ruby 2.7 would take the symbols out of a hash that also has descriptors, as Puma's restart passes.
    module OfProcess
      def exec(*arguments)
        super(*CaratRuntime.hand_on(arguments, replaces: true))
      end
      ruby2_keywords(:exec)

      def spawn(*arguments)
        super(*CaratRuntime.hand_on(arguments))
      end
      ruby2_keywords(:spawn)
    end

    # What Kernel has besides.
    module OfKernel
      include OfProcess

      def system(*arguments)
        super(*CaratRuntime.hand_on(arguments))
      end
      ruby2_keywords(:system)
    end

    def self.install
      Process.singleton_class.prepend(OfProcess)
      Kernel.singleton_class.prepend(OfKernel)
      # A module prepended to Kernel would not reach Object before Ruby 3.0; one included into Object does.
      Object.include(OfKernel)
      Object.send(:private, :exec, :spawn, :system)
    end
  end
end
