# frozen_string_literal: true

# Searches the settings of a real server with planted effects, once per seed: A saves 10 MB, B 5 MB together with A, C 20 MB at the
# price of a p95 that is 15 % higher, D fails, E does nothing. Right is what recommends A and B, never C, and names D.
#   bin/bench tune --planted [--seeds N] [FOLDER]   10 seeds into target/tune-planted; a repeated call continues
# CARAT names the program. Prints a Markdown table.

require_relative 'tune_search'

KNOBS = %w[A B C D E].freeze
DATA = File.expand_path('../crates/carat/tests/it/data', __dir__)

# The search with one seed.
class PlantedSearch < TuneSearch
  attr_reader :seed

  def initialize(seed, folder)
    @seed = seed
    own = File.join(folder, seed.to_s)
    FileUtils.mkdir_p(own)
    FileUtils.cp(%w[knobs.rb knobs.toml].map { |name| File.join(DATA, name) }, own)
    super(File.join(own, 'knobs.toml'), own, '--seed', seed.to_s)
  end

  def recommended
    env = outcome.dig('recommendation', 'env')
    env && KNOBS.select { |knob| env[knob] == '1' }
  end

  def names_d?
    outcome['failing'].include?('D=on')
  end

  def row
    [seed, recommended ? recommended.join(' ') : 'nothing', saving, names_d? ? 'yes' : 'no', outcome['trials'], minutes]
  end
end

seeds = 10
folder = 'target/tune-planted'
arguments = ARGV.dup
while (word = arguments.shift)
  if word == '--seeds' then seeds = Integer(arguments.shift) else folder = word end
end

puts '| seed | recommended | change of memory % | names D | trials | minutes |', '|--:|---|---|---|--:|--:|'
searches = (1..seeds).map do |seed|
  PlantedSearch.new(seed, folder).tap do |search|
    puts "| #{search.row.join(' | ')} |"
    $stdout.flush
  end
end
right = searches.count { |search| search.recommended == %w[A B] }
wrong = searches.count { |search| search.recommended&.include?('C') }
puts '', "#{right} of #{seeds} recommend A and B, #{wrong} recommend C, #{searches.count(&:names_d?)} name D"
