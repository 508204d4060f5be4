# frozen_string_literal: true

module CaratRuntime
  # C extensions that are known to crash after a compaction, from UNFIT_EXTENSIONS, which the library defines.
  module Extensions
    # Gem, its library, the first Ruby on which it can crash, the first version that does not (nil: none is known), and the
    # class of the objects that it keeps where the GC cannot see them, where that is known exactly and tested.
    Row = Struct.new(:gem, :library, :ruby, :fixed, :hidden)
    ROWS = UNFIT_EXTENSIONS.map { |row| Row.new(*row) }.freeze

    class << self
      # Whether the user has decided that they do not crash.
      attr_accessor :trusted

      # Why there is no compaction, for messages.
      def reason(extension)
        "#{extension} keeps objects where the GC cannot see them; trust_extensions=on compacts all the same"
      end

      # To be called right before a compaction: the first loaded one that it can crash, with its version; nil where there
      # is none. Hidden objects of a known class are pinned instead.
      def unfit
        return if trusted

        ROWS.each_with_index do |row, place|
          version = unfit_version(row) { $LOADED_FEATURES.any? { |file| file.end_with?("/#{row.library}.so") } }
          return named(place, version) unless version.nil? || pinned?(row.hidden)
        end
        nil
      end

      # Calls the block when one of them is about to be loaded: its Ruby file has its gem's name, and loads the library.
      # Unlike other trace points this event leaves compiled code as it is.
      def watch
        @watch = TracePoint.new(:script_compiled) do |event|
          path = event.instruction_sequence.path
          place = ROWS.index { |row| path.end_with?("/#{row.gem}.rb") }
          version = unfit_version(ROWS[place]) { true } if place && !trusted
          yield named(place, version) if version
        rescue StandardError
          @watch.disable
        end
        @watch.enable
      end

      private

      # The version of a gem that is in use and that compaction can crash; nil otherwise. Without Bundler, Debian's gems
      # are loaded without being activated, because their files are in the load path; the block says if this one is.
      def unfit_version(row)
        return unless defined?(::Gem) && Gem.respond_to?(:loaded_specs)
        return if Gem::Version.new(RUBY_VERSION) < Gem::Version.new(row.ruby)

        spec = Gem.loaded_specs[row.gem]
        version = spec&.version
        version ||= Gem::Specification.find_all_by_name(row.gem).map(&:version).max if yield
        version unless version && row.fixed && version >= Gem::Version.new(row.fixed)
      end

      # Whether no compaction can move a hidden object. They are never freed then, and there are few: the renderers of an
      # application, for example.
      def pinned?(hidden)
        return false if hidden.nil?

        ObjectSpace.each_object(Object.const_get(hidden)) { |object| CaratRuntime.pin(object) } if Object.const_defined?(hidden)
        true
      end

      # Name and version, which are written into the report too. A counter is only added to, so it is written once.
      def named(place, version)
        unless CaratRuntime.report[:unfit_extension].positive?
          numbers = (version.segments.grep(Integer) + [0, 0, 0]).first(3)
          CaratRuntime.count(:unfit_extension, place + 1)
          CaratRuntime.count(:unfit_version, numbers.inject(0) { |packed, number| packed << 16 | [number, 0xffff].min })
        end
        "#{ROWS[place].gem} #{version}"
      end
    end
  end
end
