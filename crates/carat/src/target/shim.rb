# frozen_string_literal: true

# Every Ruby of the tree requires this file through RUBYOPT. It loads carat's libraries and must never
# stop a server: whatever is wrong costs one line on stderr. It requires nothing else, because a gem
# activated here could not be activated in another version by the application.
unless ENV["CARAT_OFF"] == "1"
  # They are garbage at once, and only move the moments of later collections.
  ENV["CARAT_OBJECTS"].to_i.times { Object.new }
  %w[CARAT_PROBE CARAT_RUNTIME].each do |name|
    library = ENV[name]
    next if library.nil? || library.empty?

    begin
      raise LoadError, "#{RUBY_ENGINE} is not supported" unless RUBY_ENGINE == "ruby"

      # A process has one C library, and each needs a library of its own.
      library = library.sub(/(?:\.musl)?\.so\z/, ".musl.so") if RUBY_PLATFORM.end_with?("musl")
      require library
    rescue ScriptError, StandardError => e
      begin
        remedy =
          if RUBY_PLATFORM.end_with?("musl") && !File.exist?(library)
            "this Ruby is musl's and this carat is built for glibc: install a released carat, which has both"
          elsif !File.readable?(library)
            "this user cannot read it: run `carat install`, or set XDG_CACHE_HOME to a folder of this user"
          elsif e.message.include?("failed to map segment")
            "its folder is mounted noexec: set XDG_CACHE_HOME to another folder"
          elsif e.message.match?(/ELF|cannot open shared object/)
            "this carat is not built for #{RUBY_PLATFORM}: install the carat that is"
          end
        reason = [remedy, e.message.lines.first.to_s.chomp].compact.join("; ")
        $stderr.puts("carat: not loaded: #{reason} (#{name}=#{library})")
      rescue StandardError
        nil
      end
    end
  end
end
