# frozen_string_literal: true

require "puma/plugin"

module Carat
  # Starts a server once more, as `carat exec -- COMMAND`, which applies the settings of carat.toml and CARAT_SET and then
  # becomes the server: same pid, arguments and sockets.
  #
  # It runs while Puma reads its configuration, before the application is loaded or a socket is bound. Whatever is wrong
  # costs one line on stderr, and the server runs as it is. With CARAT_OFF=1 it does nothing.
  class ServerStart
    # Pid of the process that carat has started. A restart by SIGUSR2 keeps pid and environment, and with them the settings.
    STARTED = "CARAT_PUMA"

    class Unfit < StandardError; end

    # Returns if there is nothing to apply or if it failed.
    def run
      return if off? || ENV[STARTED] == Process.pid.to_s || !chosen?

      rehearse
      become_server
    rescue StandardError => e
      ENV.delete(STARTED)
      warn("carat: the server runs without settings: #{e.message}")
    end

    private

    # `pumactl` reads the same configuration; with `start` it becomes a server.
    def off?
      ENV["CARAT_OFF"] == "1" || (defined?(Puma::ControlCLI) && !ARGV.include?("start"))
    end

    def chosen?
      !ENV["CARAT_SET"].to_s.empty? || File.file?("carat.toml")
    end

    # Lets carat apply the settings to a Ruby that ends at once: what it refuses then would end the server later.
    def rehearse
      command = [carat, "exec", "--", RbConfig.ruby, "--disable=gems", "-e", ""]
      output = IO.popen([{ "RUBYOPT" => nil }, *command, { err: %i[child out] }], &:read)
      raise Unfit, output.lines.first.to_s.chomp.delete_prefix("carat exec: ") unless $?.success?
    end

    def become_server
      command = [carat, "exec", "--", RbConfig.ruby, *arguments]
      ENV[STARTED] = Process.pid.to_s
      exec(activation, *command, descriptors)
    end

    # The program of this gem, or else that of PATH.
    def carat
      own = File.expand_path("../../../libexec/carat", __dir__)
      others = ENV["PATH"].to_s.split(":").map { |folder| File.join(folder, "carat") }
      [own, *others].find { |file| File.file?(file) && File.executable?(file) } ||
        raise(Unfit, "there is no program `carat` in PATH")
    end

    # What this Ruby was started with. ARGV is not enough: `rails server` has removed its first word by now.
    def arguments
      program, *rest = File.read("/proc/self/cmdline").split("\0", -1)[0..-2]
      File.basename(program).start_with?("ruby") ? rest : titled_arguments(program)
    end

    # `bundle exec` replaces the command by a title: the program and its arguments, separated by spaces.
    def titled_arguments(title)
      left = ARGV.join(" ")
      removed = title[/\A#{Regexp.escape($PROGRAM_NAME)}(.*?) ?#{Regexp.escape(left)} *\z/, 1]
      return [$PROGRAM_NAME, *removed.split, *ARGV] if removed && File.file?($PROGRAM_NAME)

      raise Unfit, "its command is unknown, because the title `#{title}` has replaced it"
    end

    # The variables of systemd's sockets (sd_listen_fds(3)). Puma may have removed them already.
    def activation
      pairs = File.read("/proc/self/environ").split("\0").map { |pair| pair.split("=", 2) }
      pairs.select { |name, _| name.start_with?("LISTEN_") }.to_h
    end

    def descriptors
      (3...3 + activation["LISTEN_FDS"].to_i).to_h { |descriptor| [descriptor, descriptor] }
    end
  end
end

Puma::Plugin.create do
  def config(_puma)
    Carat::ServerStart.new.run
  end
end
