# frozen_string_literal: true

# Runs a command under a printed configuration, as the program does that reads configurations of this format:
#   ruby run_as.rb FORMAT FILE COMMAND…
# A configuration that has a command of its own runs that one.
require "json"
require "shellwords"
require "yaml"

class Configuration
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

  # docs.docker.com/reference/dockerfile: in double quotes a backslash escapes, and a dollar sign begins a variable.
  def dockerfile
    lines.each do |line|
      instruction, rest = line.split(" ", 2)
      case instruction
      when "RUN" then system(@variables, "sh", "-c", rest, out: :err) || abort("failed: #{rest}")
      when "CMD" then @command = JSON.parse(rest)
      when "ENV" then set_env(*rest.split("=", 2))
      else abort "unknown instruction #{line}"
      end
    end
  end

  def set_env(name, quoted)
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
