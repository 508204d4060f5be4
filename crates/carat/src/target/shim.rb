# frozen_string_literal: true

# Every Ruby of the tree requires this file through RUBYOPT. It loads carat's libraries and must never
# stop a server: whatever is wrong costs one line on stderr. It requires nothing else, because a gem
# activated here could not be activated in another version by the application.
unless ENV["CARAT_OFF"] == "1"
  %w[CARAT_PROBE CARAT_RUNTIME].each do |name|
    library = ENV[name]
    next if library.nil? || library.empty?

    begin
      raise LoadError, "#{RUBY_ENGINE} is not supported" unless RUBY_ENGINE == "ruby"
      raise LoadError, "this Ruby is musl's, carat's libraries are for glibc" if RUBY_PLATFORM.end_with?("musl")

      require library
    rescue ScriptError, StandardError => e
      begin
        $stderr.puts("carat: not loaded: #{e.message.lines.first.to_s.chomp} (#{name}=#{library})")
      rescue StandardError
        nil
      end
    end
  end
end
