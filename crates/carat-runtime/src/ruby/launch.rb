# frozen_string_literal: true

module CaratRuntime
  # The arguments of `exec`, `spawn` or `system`: a command, an environment before it and options after it, which may be
  # missing. What is added goes into a new list; neither ENV nor the caller's own hashes change.
  class Launch
    def initialize(arguments)
      @command = arguments.dup
      @options = Hash.try_convert(@command.last)
      @command.pop if @options
      @environment = Hash.try_convert(@command.first)
      @command.shift if @environment
      @variables = {}
      @limits = {}
    end

    # Whether it becomes a Ruby, as far as that can be known.
    def ruby?
      search.ruby?(*words)
    end

    # Whether a word of the command names this program.
    def names?(program)
      words.flat_map(&:split).any? { |word| File.basename(word) == program }
    end

    # Whether the caller wants no other variables than its own.
    def closed?
      @options && @options[:unsetenv_others]
    end

    # The value that a variable will have.
    def value(name)
      given = @environment || {}
      given.fetch(name) { ENV[name] }
    end

    def set(name, value)
      @variables[name] = value
    end

    # Sets a limit of resources as Process.setrlimit does.
    def limit(name, soft, hard)
      @limits[name] = [soft, hard]
    end

    def arguments
      environment = (@environment || {}).merge(@variables)
      options = @limits.merge(@options || {})
      [environment, *@command, options].reject { |part| part.is_a?(Hash) && part.empty? }
    end

    private

    # One string is for a shell. A pair is a program and the name that it gets.
    def words
      first = @command.first
      first = first.first if first.is_a?(Array)
      [first, *@command.drop(1)].map { |word| word.respond_to?(:to_path) ? word.to_path : word.to_str }
    end

    def search
      folder = @options && @options[:chdir]
      ProgramSearch.new(value("PATH").to_s, File.expand_path(folder.is_a?(String) ? folder : "."))
    end
  end
end
