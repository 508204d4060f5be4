# frozen_string_literal: true

module CaratRuntime
  # Where the application is loaded: before the fork, or by each worker. A server of Rack has loaded it when it has evaluated
  # its description. Another one that listens before any application is loaded cannot be told from one that has loaded a small
  # one; what its workers load shows it then. Unlike other trace points this event leaves compiled code as it is.
  module Application
    # Files after which a worker counts as loading the application itself: at least so many, and this share of what its
    # parent has loaded. A preloaded application loads some late, when a page needs them.
    FILES = 20
    SHARE = 0.2
    # The end of the name of a file that describes a Rack application (`rackup`).
    RACKUP = ".ru"
    # Servers that load such a file, before the fork or in each worker.
    RACK_SERVERS = { Puma: :Launcher, Unicorn: :HttpServer, Pitchfork: :HttpServer }.freeze

    @loaded = false
    @certain = false
    @missing_files = nil

    class << self
      def start
        @scripts = TracePoint.new(:script_compiled) { |script| compiled(script) }
        @scripts.enable
      end

      # Whether this process, or the one that it was forked from, has loaded an application for certain.
      def loaded?
        !loading? && (@loaded || !WarmApplication.find.nil?)
      end

      # Whether the application is loaded right now, such as by an initializer that forks a helper.
      def loading?
        rails = ::Rails.application if defined?(::Rails.application)
        return true if rails.respond_to?(:initialized?) && !rails.initialized?

        caller_locations.any? { |location| location.path.to_s.end_with?(RACKUP) }
      end

      # Whether it has not, for certain.
      def missing?
        loading? || (!loaded? && RACK_SERVERS.any? { |gem, server| running?(gem, server) })
      end

      # Whether this process knew before its last fork that an application is loaded. Not asked in a child, which would look
      # through all objects.
      def certain?
        @loaded || @certain
      end

      def before_fork
        @forker = Process.pid
        @certain ||= loaded?
      end

      def in_child
        return if @scripts.nil?
        return @scripts.disable if loaded?

        @missing_files = [FILES, $LOADED_FEATURES.size * SHARE].max
      end

      private

      # Whether the class of a server is loaded, and not only named.
      def running?(gem, server)
        return false if !Object.const_defined?(gem) || Object.autoload?(gem)

        space = Object.const_get(gem)
        space.const_defined?(server, false) && !space.autoload?(server)
      end

      def compiled(script)
        described = rackup?(script)
        return unless described || last_file?(script)

        @scripts.disable
        @loaded = true
        CaratRuntime.own_application(certain: described, worker: worker?) if @missing_files
      rescue StandardError
        @scripts.disable
      end

      # The parent of a process that went into the background has ended: that was no fork of a server for its workers.
      def worker?
        Process.ppid == @forker
      end

      def rackup?(script)
        script.instruction_sequence.path.to_s.end_with?(RACKUP)
      end

      # Templates are evaluated when a page first needs them, so only files count.
      def last_file?(script)
        return false if @missing_files.nil? || script.eval_script

        (@missing_files -= 1) <= 0
      end
    end
  end
end
