# frozen_string_literal: true

module CaratRuntime
  # C extensions that are known to crash after a compaction, with the first version that does not.
  module Extensions
    # nil: no fixed version is known.
    FIXED_IN = {
      "bson" => "4.9.2",
      "ffi" => "1.12.2",
      "hamlit" => "2.15.1",
      "pg" => "1.3.0",
      "redcarpet" => nil,
      "semian" => "0.11.0",
    }.freeze

    class << self
      # Whether the user has decided that they do not crash.
      attr_accessor :trusted
    end

    # Why there is no compaction, for messages.
    def self.reason(extension)
      "#{extension} keeps objects where the GC cannot see them; trust_extensions=on compacts all the same"
    end

    # The first loaded one with its version; nil where there is none.
    def self.unfit
      return if trusted
      return unless defined?(::Gem) && Gem.respond_to?(:loaded_specs)

      FIXED_IN.each do |name, fixed|
        spec = Gem.loaded_specs[name]
        next if spec.nil? || (fixed && spec.version >= Gem::Version.new(fixed))

        return "#{name} #{spec.version}"
      end
      nil
    end
  end
end
