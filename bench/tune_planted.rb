# frozen_string_literal: true

# Searches the settings of a real server with planted effects, once per seed: A saves 10 MB, B 5 MB together with A, C 20 MB at the
# price of a p95 that is 15 % higher, D fails, E does nothing. Right is what recommends A and B, never C, and names D.
#   bin/bench tune --planted [--seeds N] [FOLDER]   10 seeds into target/tune-planted; a repeated call continues
# CARAT names the program. Prints a Markdown table.

require 'English'
require 'fileutils'
require 'json'

KNOBS = %w[A B C D E].freeze
DATA = File.expand_path('../crates/carat/tests/it/data', __dir__)

# What one search ended with.
class PlantedSearch
  # 0 recommends, 3 does not; every other code is an error, and carat has printed it.
  ENDED = [0, 3].freeze

  attr_reader :seed

  def initialize(seed, folder)
    @seed = seed
    @folder = File.join(folder, seed.to_s)
    FileUtils.mkdir_p(@folder)
    FileUtils.cp(%w[knobs.rb knobs.toml].map { |name| File.join(DATA, name) }, @folder)
    file = File.join(@folder, 'knobs.toml')
    system(ENV.fetch('CARAT'), 'tune', file, '-o', @folder, '--seed', seed.to_s, '--resume', out: File::NULL, err: "#{@folder}.log")
    abort "error: seed #{seed}: #{@folder}.log says why" unless ENDED.include?($CHILD_STATUS.exitstatus)
    abort "error: seed #{seed} was not begun: #{@folder}.log says why; remove #{@folder} before the next call" unless File.exist?(result)
  end

  def result
    File.join(@folder, 'outcome.json')
  end

  def outcome
    @outcome ||= JSON.parse(File.read(result)).fetch('outcome')
  end

  def recommended
    env = outcome.dig('recommendation', 'env')
    env && KNOBS.select { |knob| env[knob] == '1' }
  end

  def names_d?
    outcome['failing'].include?('D=on')
  end

  def saving
    goal = outcome.dig('recommendation', 'conclusions', 0, 'estimate')
    goal ? format('%+.1f (%+.1f … %+.1f)', *[goal['ratio'], *goal['ratio_interval']].map { |share| 100 * share }) : '–'
  end

  def row
    [seed, recommended ? recommended.join(' ') : 'nothing', saving, names_d? ? 'yes' : 'no', outcome['trials'], format('%.1f', outcome['seconds'] / 60)]
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
