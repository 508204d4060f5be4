# frozen_string_literal: true

module CaratRuntime
  # Decides which of the programs that this process starts get its settings: a Ruby that is started by a Ruby which does not
  # listen itself, as Passenger, thin and foreman start their servers, and what takes the place of this process.
  module Launcher
    # Launchers that listen themselves, to be controlled.
    LISTENING = %w[god spring].freeze

    class << self
      # To be called while this process is the one that was started.
      def remember
        @process = Process.pid
        @program = File.basename($PROGRAM_NAME)
      end

      def hands_on?(launch, replaces)
        return false if launch.closed?

        ((replaces && restart?(launch)) || launcher?) && launch.ruby?
      end

      private

      # A server may restart itself in a child that it forks, as Unicorn does.
      def restart?(launch)
        Process.pid == @process || launch.names?(@program)
      end

      def launcher?
        LISTENING.include?($PROGRAM_NAME[/[^\s\/]+(?=\s|\z)/]) || CaratRuntime.listening != 1
      end
    end
  end
end
