# frozen_string_literal: true

module CaratRuntime
  # C extensions that are known to crash after a compaction. UNFIT_EXTENSIONS, which the library defines, has their gems,
  # each with its library, the first Ruby on which it can crash, and the first version that does not (nil: none is known).
  module Extensions
    class << self
      # Whether the user has decided that they do not crash.
      attr_accessor :trusted

      # Why there is no compaction, for messages.
      def reason(extension)
        "#{extension} keeps objects where the GC cannot see them; trust_extensions=on compacts all the same"
      end

      # The first loaded one with its version; nil where there is none.
      def unfit
        return if trusted
        return unless defined?(::Gem) && Gem.respond_to?(:loaded_specs)

        UNFIT_EXTENSIONS.each_with_index do |(name, library, ruby, fixed), place|
          next if Gem::Version.new(RUBY_VERSION) < Gem::Version.new(ruby)

          version = loaded_version(name, library)
          next if version.nil? || (fixed && version >= Gem::Version.new(fixed))

          publish(place, version)
          return "#{name} #{version}"
        end
        nil
      end

      private

      # The version of a gem that is in use; nil where it is not. Without Bundler, Debian's gems are loaded without being
      # activated, because their files are in the load path.
      def loaded_version(name, library)
        spec = Gem.loaded_specs[name]
        return spec.version if spec
        return if $LOADED_FEATURES.none? { |file| file.end_with?("/#{library}.so") }

        Gem::Specification.find_all_by_name(name).map(&:version).max
      end

      # Writes into the report which one it is. A counter is only added to, so it is written once.
      def publish(place, version)
        return if CaratRuntime.report[:unfit_extension].positive?

        numbers = (version.segments.grep(Integer) + [0, 0, 0]).first(3)
        CaratRuntime.count(:unfit_extension, place + 1)
        CaratRuntime.count(:unfit_version, numbers.inject(0) { |packed, number| packed << 16 | [number, 0xffff].min })
      end
    end
  end
end
