# frozen_string_literal: true

module CaratRuntime
  # Before the first fork of a preloaded server: requests pages of the application itself, so that what the first requests
  # fill (caches of methods, compiled templates, schema) is shared by all workers.
  class Warm < Setting
    named "warm"

    def before_fork
      return if @tried || !CaratRuntime.preloaded?

      @tried = true
      application = WarmApplication.find
      return refuse("no Rails application and no application that Puma has loaded was found") if application.nil?

      problem = Rehearsal.new(application, paths).problem
      return refuse(problem) if problem

      serve(application)
    end

    def preloads?
      true
    end

    private

    # Without warming its pages are not requested either, and there is no later moment for them.
    def refuse(reason)
      CaratRuntime.setting("warm_paths")&.refused
      super
    end

    def paths
      CaratRuntime.setting("warm_paths")&.paths || ["/"]
    end

    def serve(application)
      before = Inheritance.new
      pages = 0
      CaratRuntime.timed(:warm_ns) do
        plan(application, before).each do |path|
          application.get(path)
          pages += 1
          CaratRuntime.count(:warmed_pages)
        end
      ensure
        application.disconnect
      end
      # A rehearsal of one request per page does not show everything.
      return refuse("after #{pages} pages #{before.problem}") if before.problem

      CaratRuntime.setting("warm_paths")&.applied
      true
    end

    # The paths in the order in which they are requested.
    def plan(application, before)
      return paths.cycle.first(Integer(value)) unless value == "auto"

      WarmRounds.new(application, paths, before)
    end
  end

  # Rounds of all pages until another one would change almost nothing that each worker changes for itself otherwise: methods
  # that Ruby's compiler has not compiled yet, and pages of memory that a new child copies when it serves a round.
  class WarmRounds
    # Between two looks.
    STEP = 10
    # A method is compiled at its 30th call, at its 120th where there are more than 40,000 methods (yjit.rs, Ruby 3.3 and 3.4).
    CALLS = 30
    MANY_METHODS = 40_000
    CALLS_OF_MANY = 120
    # Less than this share fewer bytes than at the look before is almost nothing.
    LEVEL = 0.95
    # Seconds for all rounds: the server does not listen while it warms.
    WITHIN = 20

    def initialize(application, paths, before)
      @application = application
      @paths = paths
      @before = before
    end

    def each(&request)
      @deadline = now + WITHIN
      least = least_rounds
      rounds = 0
      loop do
        STEP.times do
          @paths.each(&request)
          rounds += 1
          return if now > @deadline
        end
        # A socket would be shared by the child that a look forks.
        return if @before.problem || (level? && rounds >= least)
      end
    end

    private

    def least_rounds
      return STEP unless compiler

      chosen = CaratRuntime.setting("yjit_call_threshold")
      calls = chosen ? Integer(chosen.value) : CALLS
      calls = CALLS_OF_MANY if chosen.nil? && method_count > MANY_METHODS
      calls + STEP
    end

    def method_count
      require "objspace"
      ObjectSpace.count_imemo_objects.fetch(:imemo_iseq, 0)
    end

    def compiler
      RubyVM::YJIT if defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
    end

    # Whether the last rounds have changed almost nothing.
    def level?
      compiled = compiler&.runtime_stats&.fetch(:compiled_iseq_count, nil)
      copied = bytes_copied
      level = compiled == @compiled && (copied.nil? || (!@copied.nil? && copied >= @copied * LEVEL))
      @compiled = compiled
      @copied = copied
      level
    end

    # Bytes that a child copies when it serves one round; nil where that is not known.
    def bytes_copied
      @application.disconnect
      answer = ThrowawayChild.ask([@deadline - now, 1].max) { copy_a_round }
      Integer(answer, exception: false) if answer
    rescue SystemCallError
      nil
    end

    # Runs in the child. A collection would write to all of its heap.
    def copy_a_round
      GC.disable
      before = private_bytes
      @paths.each { |path| @application.get(path) }
      private_bytes - before
    end

    def private_bytes
      File.read("/proc/self/smaps_rollup")[/^Private_Dirty:\s+(\d+)/, 1].to_i * 1024
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  # What a forked worker would lack or share, compared with an earlier moment.
  class Inheritance
    def initialize
      @threads = threads
      @sockets = sockets
    end

    # Why what is new since then would not survive a fork; nil where nothing is new.
    def problem
      return "a page starts a thread, which no worker would have" unless (threads - @threads).empty?

      "a page opens a socket, which all workers would share" unless (sockets - @sockets).empty?
    end

    private

    # Without those that their libraries start again after a fork: they are marked for servers, as Active Record's reaper
    # is, or they are Ruby's own for Timeout.
    def threads
      Thread.list.reject do |thread|
        next false if thread.is_a?(Process::Waiter)

        thread.thread_variable_get(:fork_safe) || thread.name.to_s.end_with?("Timeout stdlib thread")
      end
    end

    def sockets
      Dir.children("/proc/self/fd").filter_map do |descriptor|
        target = File.readlink("/proc/self/fd/#{descriptor}")
        target if target.start_with?("socket:")
      rescue SystemCallError
        nil
      end
    end
  end

  # The application that this process has loaded, as a Rack application.
  class WarmApplication
    # The most bytes of one response; a stream without end must end.
    MOST_BYTES = 16 << 20

    class Unfit < StandardError; end

    def self.find
      rails = ::Rails.application if defined?(::Rails.application)
      loaded = rails.respond_to?(:initialized?) && rails.initialized? ? rails : of_puma
      loaded && new(loaded)
    end

    def self.of_puma
      return unless defined?(::Puma::Runner)

      ObjectSpace.each_object(::Puma::Runner).filter_map { |runner| runner.instance_variable_get(:@app) }.first
    end

    def initialize(application)
      require "stringio"
      @application = application
    end

    # Requests a page; raises what makes it unfit for warming.
    def get(path)
      status, headers, body = @application.call(environment(path))
      raise Unfit, "GET #{path} redirects to #{headers["Location"] || headers["location"]}" if (300..399).cover?(status)
      raise Unfit, "GET #{path} answers #{status}" unless (200..299).cover?(status)

      read(path, body)
    end

    # Closes connections to databases, which must not be shared by processes.
    def disconnect
      return unless defined?(::ActiveRecord::Base)

      handler = ::ActiveRecord::Base.connection_handler
      pools = handler.method(:connection_pool_list).arity.zero? ? handler.connection_pool_list : all_pools(handler)
      pools.each(&:disconnect!)
    end

    private

    # From Rails 7.1 on the pools of all roles must be asked for.
    def all_pools(handler)
      handler.connection_pool_list(*(:all if ::ActiveRecord.version >= Gem::Version.new("7.1")))
    end

    def read(path, body)
      raise Unfit, "GET #{path} answers with a stream" unless body.respond_to?(:each)

      bytes = 0
      body.each do |part|
        bytes += part.bytesize
        raise Unfit, "GET #{path} sends more than #{MOST_BYTES >> 20} MiB" if bytes > MOST_BYTES
      end
    ensure
      body.close if body.respond_to?(:close)
    end

    # Over https, because an application that insists on it would redirect every page.
    def environment(path)
      path, query = path.split("?", 2)
      { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query.to_s,
        "SERVER_NAME" => "localhost", "SERVER_PORT" => "443", "HTTP_HOST" => "localhost", "HTTPS" => "on",
        "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_VERSION" => "HTTP/1.1", "REMOTE_ADDR" => "127.0.0.1",
        "HTTP_ACCEPT" => "text/html,*/*", "HTTP_USER_AGENT" => "carat", "rack.version" => [1, 3],
        "rack.url_scheme" => "https", "rack.input" => StringIO.new(String.new), "rack.errors" => $stderr,
        "rack.multithread" => true, "rack.multiprocess" => true, "rack.run_once" => false, "rack.hijack?" => false }
    end
  end

  # A child that answers once and is thrown away, with all that it has changed.
  module ThrowawayChild
    class << self
      # What the block gives in the child, as text; nil where that takes longer than `within` seconds, empty where the child
      # ends before, and false where it is lost.
      def ask(within, &work)
        reader, writer = IO.pipe
        pid = CaratRuntime.without_hooks { fork { report_to(reader, writer, &work) } }
        writer.close
        answer_of(reader, pid, within)
      ensure
        [reader, writer].compact.each { |pipe| pipe.close unless pipe.closed? }
      end

      private

      def answer_of(reader, pid, within)
        answer = reader.read if IO.select([reader], nil, nil, within)
        Process.kill(:KILL, pid)
        Process.wait(pid)
        answer
      rescue SystemCallError
        false
      end

      # Runs in the child; it leaves without any handler of the server's.
      def report_to(reader, writer)
        reader.close
        writer.write(yield)
        writer.close
      ensure
        exit!(0)
      end
    end
  end

  # Requests each page once in a child that is thrown away, to find out what would not survive the fork of a worker.
  class Rehearsal
    # Seconds after which a page counts as hanging.
    WITHIN = 30

    def initialize(application, paths)
      @application = application
      @paths = paths
    end

    # Why the pages are unfit for warming; nil if they are fit.
    def problem
      answer = ThrowawayChild.ask(WITHIN) { rehearse.to_s.lines.first.to_s.chomp[0, 300] }
      case answer
      when "fit" then nil
      when nil then "a page does not answer within #{WITHIN} s"
      when false then "the process that requested the pages was lost"
      when "" then "the process that requested the pages ended"
      else answer.force_encoding("UTF-8").scrub
      end
    end

    private

    def rehearse
      before = Inheritance.new
      @paths.each { |path| @application.get(path) }
      @application.disconnect
      before.problem || "fit"
    rescue WarmApplication::Unfit => e
      e.message
    rescue StandardError, ScriptError => e
      "a page raises #{e.class}: #{e.message}"
    end
  end
end
