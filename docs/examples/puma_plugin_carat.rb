# frozen_string_literal: true

# Put this into lib/puma/plugin/carat.rb and `plugin :carat` into config/puma.rb. Puma then replaces itself
# by `carat exec`, which reads the settings from carat.toml and starts the same Puma under them.
require "puma/plugin"

Puma::Plugin.create do
  def config(_dsl)
    return if ENV.delete("CARAT_PUMA")

    ENV["CARAT_PUMA"] = "1"
    exec("carat", "exec", "--", $PROGRAM_NAME, *ARGV)
  end
end
