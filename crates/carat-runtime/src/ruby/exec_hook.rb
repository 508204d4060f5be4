# frozen_string_literal: true

module CaratRuntime
  # Calls the runtime before this process replaces itself, which is how a server restarts itself.
  module ExecHook
    module Around
      def exec(*arguments, **options)
        undo = CaratRuntime.before_exec
        options.empty? ? super(*arguments) : super(*arguments, **options)
      ensure
        # Only where it failed.
        undo&.each(&:call)
      end
    end

    def self.install
      [Process, Kernel].each { |place| place.singleton_class.prepend(Around) }
      # A module prepended to Kernel would not reach Object before Ruby 3.0; one included into Object does.
      Object.include(Around)
      Object.send(:private, :exec)
    end
  end
end
