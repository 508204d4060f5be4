# frozen_string_literal: true

module CaratRuntime
  # Reports whether ZJIT is enabled: Ruby reads its variable before this library is loaded (`process_options`, ruby.c of 4.0).
  class Zjit < Setting
    named "zjit"

    def start
      return refuse("this Ruby was built without ZJIT") unless defined?(RubyVM::ZJIT.enabled?)

      RubyVM::ZJIT.enabled? || refuse("an option of the command or RUBYOPT keeps ZJIT off")
    end
  end
end
