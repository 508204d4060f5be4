# frozen_string_literal: true

module CaratRuntime
  # Calls the runtime before this process replaces itself, which is how a server restarts itself.
  module ExecHook
    module Around
      # No keywords: Ruby 2.7 would take the symbols out of a hash that also has descriptors, as Puma's restart passes.
      def exec(*arguments)
        undo = CaratRuntime.before_exec
        super(*arguments)
      ensure
        # Only where it failed.
        undo&.each(&:call)
      end
      ruby2_keywords(:exec)
    end

    def self.install
      [Process, Kernel].each { |place| place.singleton_class.prepend(Around) }
      # A module prepended to Kernel would not reach Object before Ruby 3.0; one included into Object does.
      Object.include(Around)
      Object.send(:private, :exec)
    end
  end
end
