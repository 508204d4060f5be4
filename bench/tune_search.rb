# frozen_string_literal: true

require 'English'
require 'fileutils'
require 'json'

# A search by the program that CARAT names, in a folder in which a repeated call continues it.
class TuneSearch
  # 0 recommends, 3 does not; every other code is an error, and carat has printed it.
  ENDED = [0, 3].freeze

  # What carat printed.
  attr_reader :text

  def initialize(file, folder, *options)
    @folder = folder
    log = "#{folder}.log"
    FileUtils.mkdir_p(folder)
    command = [ENV.fetch('CARAT'), 'tune', file, '-o', folder, '--resume', *options]
    @text = IO.popen(command, err: [log, 'a'], &:read)
    abort "error: #{command.join(' ')} failed: #{log} says why" unless ENDED.include?($CHILD_STATUS.exitstatus)
    abort "error: the search was not begun: #{log} says why; remove #{folder} before the next call" unless File.exist?(result)
  end

  def outcome
    @outcome ||= JSON.parse(File.read(result)).fetch('outcome')
  end

  # Change of the first metric in per cent, with its interval.
  def saving
    goal = outcome.dig('recommendation', 'conclusions', 0, 'estimate')
    goal ? format('%+.1f (%+.1f … %+.1f)', *[goal['ratio'], *goal['ratio_interval']].map { |share| 100 * share }) : '–'
  end

  def minutes
    format('%.1f', outcome['seconds'] / 60)
  end

  private

  def result
    File.join(@folder, 'outcome.json')
  end
end
