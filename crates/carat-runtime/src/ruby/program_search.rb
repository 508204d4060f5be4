# frozen_string_literal: true

module CaratRuntime
  # Finds out whether a command becomes a Ruby, from the files that the kernel and a shell would read, without running
  # anything. What it cannot follow is none.
  class ProgramSearch
    RUBY = /\Aruby(?:[\d.]*|-mri)\z/
    SHELLS = %w[sh ash bash dash ksh zsh].freeze
    # Programs and words of a shell that run the command which follows them.
    PREFIXES = %w[env exec command nohup nice ionice setarch setsid stdbuf time timeout taskset chrt numactl chpst setuidgid
                  setpriv su-exec gosu tini dumb-init if then else elif while until do !].freeze
    # Their options with a separate argument.
    OPTION_WITH_ARGUMENT = /\A-[ukgGP]\z/
    # Programs in another language that start Rubies with their own environment.
    CARRIERS = %w[PassengerAgent overmind hivemind rbenv asdf mise rvm chruby-exec rvm-exec].freeze
    # Scripts that call each other deeper are not followed.
    DEPTH = 4
    # Bytes of a shell script that are read.
    SCRIPT = 64 << 10

    WORD = /(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s;&|(){}`"'\\])+/m
    TOKEN = /#{WORD}|[;&|\n(){}`]/m
    # The arguments of a shell script.
    ALL_ARGUMENTS = ["$@", "${@}", "$*"].freeze

    # path: the value of PATH; folder: the working directory.
    def initialize(path, folder)
      @path = path
      @folder = folder
    end

    # A program and its arguments, or one string for a shell.
    def ruby?(first, *rest)
      rest.empty? ? text?(first, [], DEPTH) : command?([first, *rest], DEPTH)
    end

    private

    # Whether one of the commands in a shell's text is a Ruby.
    def text?(text, arguments, depth)
      tokens = text.gsub(/^\s*#.*$/, "").scan(TOKEN)
      commands = tokens.slice_when { |before, after| separator?(before) || separator?(after) }
      commands.any? do |tokens_of_one|
        words = tokens_of_one.map { |word| word.delete("\"'") }
        words = words.flat_map { |word| ALL_ARGUMENTS.include?(word) ? arguments : word }
        command?(words, depth)
      end
    end

    def separator?(token)
      token.match?(/\A[;&|\n(){}`]\z/)
    end

    def command?(words, depth)
      program, *arguments = without_prefixes(words)
      return false if program.nil? || depth.zero?

      name = File.basename(program)
      return true if RUBY.match?(name) || CARRIERS.include?(name)

      file = find(program)
      !file.nil? && file?(file, arguments, depth)
    end

    def without_prefixes(words)
      rest = words
      loop do
        rest = rest.drop_while { |word| word.match?(/\A\w+=/) }
        return rest unless rest.first && PREFIXES.include?(File.basename(rest.first))

        rest = without_options(rest.drop(1))
      end
    end

    # Options, assignments, and numbers, such as the duration of `timeout`.
    def without_options(words)
      rest = words
      while rest.first&.match?(/\A(?:-|\w+=|[\d.]+[smhd]?\z|0x\h+\z)/)
        rest = rest.drop(OPTION_WITH_ARGUMENT.match?(rest.first) ? 2 : 1)
      end
      rest
    end

    def file?(file, arguments, depth)
      name = File.basename(File.realpath(file))
      return true if RUBY.match?(name)
      return shell?(arguments, depth) if SHELLS.include?(name)

      script = File.binread(file, SCRIPT).to_s
      return false unless script.start_with?("#!")

      line, text = script.split("\n", 2)
      interpreter = line.delete_prefix("#!").split
      return text?(text.to_s, arguments, depth - 1) if SHELLS.include?(shell_name(interpreter))

      command?(interpreter, depth - 1)
    end

    # The name of the shell that a `#!` line names.
    def shell_name(interpreter)
      program = without_prefixes(interpreter).first
      program && File.basename(program)
    end

    # The arguments of a shell: a text after `-c`, or a script.
    def shell?(arguments, depth)
      place = arguments.index { |word| word.match?(/\A-\w*c\z/) }
      return text?(arguments[place + 1].to_s, arguments.drop(place + 3), depth - 1) if place

      script, *rest = arguments.drop_while { |word| word.start_with?("-", "+") }
      file = script && File.expand_path(script, @folder)
      return false unless file && File.file?(file)

      text?(File.binread(file, SCRIPT).to_s, rest, depth - 1)
    end

    # The regular file of a program.
    def find(program)
      folders = program.include?("/") ? [@folder] : @path.split(":")
      folders.map { |folder| File.expand_path(program, File.expand_path(folder, @folder)) }.find do |file|
        File.file?(file) && File.executable?(file)
      end
    end
  end
end
