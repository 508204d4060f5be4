# frozen_string_literal: true

# Leaves out of `carat report --json` what makes it long (samples, histograms, logs) and keeps every trial's metrics:
#   carat report results/extend.carat --json | ruby docs/experiments/shorten.rb > docs/experiments/4-extend.json
require 'json'

LONG = %w[samples load log_tail].freeze

export = JSON.parse($stdin.read)
export['results']['trials'].each { |trial| LONG.each { |key| trial.delete(key) } }
puts JSON.pretty_generate(export)
