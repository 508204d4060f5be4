# frozen_string_literal: true

# Runs a command under a printed configuration, as the program does that reads configurations of this format:
#   ruby run_as.rb FORMAT FILE COMMAND…
# A configuration that has a command of its own runs that one.
require "fileutils"
require "json"
require "shellwords"
require "yaml"

class Configuration
  DOCKERFILE = %w[FROM ARG ADD COPY WORKDIR RUN ENV CMD].freeze

  def initialize(text, command)
    @text = text
    @command = command
    @variables = {}
  end

  def run(format)
    send(format)
    exec(@variables, *@command)
  end

  private

  def lines
    @text.lines.map(&:chomp).reject { |line| line.empty? || line.start_with?("#") }
  end

  def in_shell(line)
    @command = ["sh", "-c", line, "sh", *@command]
  end

  def shell
    in_shell("#{@text}exec \"$@\"")
  end

  # Formation is started by a shell, as foreman does.
  def procfile
    in_shell(lines.first.delete_prefix("web: "))
  end

  # docs.docker.com/reference/dockerfile. This system stands for the base image, and the current folder is the context. Values of
  # arguments come from the environment; the steps know them and the server does not.
  def dockerfile
    @context = Dir.pwd
    @arguments = {}
    Dir.chdir("/")
    lines.each do |line|
      instruction, rest = line.split(" ", 2)
      abort("unknown instruction #{line}") unless DOCKERFILE.include?(instruction)

      send("docker_#{instruction.downcase}", rest)
    end
  end

  def docker_from(_image); end

  def docker_arg(declaration)
    name, default = declaration.split("=", 2)
    @arguments[name] = ENV.delete(name) || default || abort("no value for the argument #{name}")
  end

  # An archive is unpacked.
  def docker_add(words)
    archive, folder = words.gsub(/\$\{(\w+)\}/) { @arguments.fetch($1) }.split
    abort("not an archive: #{archive}") unless archive.end_with?(".tar.gz")
    in_image("tar", "-xzf", File.join(@context, archive), "-C", folder)
  end

  def docker_copy(words)
    source, target = words.split
    in_image("cp", "-R", File.join(@context, source), target)
  end

  def docker_workdir(folder)
    FileUtils.mkdir_p(folder)
    Dir.chdir(folder)
  end

  def docker_run(line)
    in_image("sh", "-c", line)
  end

  def in_image(*command)
    system(@arguments.merge(@variables), *command, out: :err) || abort("failed: #{command}")
  end

  def docker_cmd(words)
    @command = JSON.parse(words)
  end

  # In double quotes a backslash escapes, and a dollar sign begins a variable.
  def docker_env(words)
    name, quoted = words.split("=", 2)
    value = quoted[/\A"((?:[^"\\$]|\\["\\$])*)"\z/, 1] || abort("not one word: #{quoted}")
    @variables[name] = value.gsub(/\\(.)/, '\1')
  end

  # systemd.exec(5), systemd.service(5): words are unquoted as in C, then `%%` and `$$` stand for one character.
  def systemd
    lines.each do |line|
      name, rest = line.split("=", 2)
      words = rest.scan(/"((?:[^"\\]|\\.)*)"|(\S+)/).map { |quoted, plain| plain || quoted.gsub(/\\(.)/, '\1') }
      words.map! { |word| word.gsub("%%", "%") }
      case name
      when "Environment" then @variables.update(words.to_h { |word| word.split("=", 2) })
      when "ExecStart" then @command = words.map { |word| word.gsub("$$", "$") }
      else abort "unknown key #{name}"
      end
    end
  end

  # Kamal gives variables to `docker run --env` and puts `cmd` into a line of the host's shell.
  def kamal
    tree = YAML.safe_load(@text)
    @variables = tree.dig("env", "clear") || {}
    line = tree.dig("servers", "web", "cmd")
    in_shell(line) if line
  end

  # kubernetes.io/docs/tasks/inject-data-application: `$(NAME)` is expanded, `$$` is one dollar sign.
  def kubernetes
    tree = YAML.safe_load(@text)
    @variables = tree.fetch("env", []).to_h { |variable| [variable["name"], expand(variable["value"])] }
    @command = tree["command"].map { |word| expand(word) } if tree["command"]
  end

  def expand(text)
    text.gsub(/\$\$|\$\((\w+)\)/) { |found| found == "$$" ? "$" : @variables.fetch($1) }
  end
end

format, file, *command = ARGV
Configuration.new(File.read(file), command).run(format)
