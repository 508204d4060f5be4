# frozen_string_literal: true

# Makes of `carat report --json` what is kept under docs/: every trial's metrics, its memory at up to 16 moments, the
# figures of its load and its last ledger; without histograms, logs and single processes. A sample that has a moment of its
# own, such as "ready" or "end", is always kept. `carat report` reads the file again:
#   carat report results/extend.carat --json --share | ruby docs/experiments/shorten.rb > docs/experiments/4-extend.json
require 'json'

MOMENTS = 16
KEPT = %w[at_ms moment processes rss pss uss shared answered ledger].freeze

# The last sample holds the ledger, so it is always among those that stay.
def thin(samples)
  step = (samples.size / MOMENTS.to_f).ceil.clamp(1..)
  samples.reverse.each_with_index.select { |sample, place| sample['moment'] || (place % step).zero? }.map(&:first).reverse
end

export = JSON.parse($stdin.read)
export['results']['trials'].each do |trial|
  trial['samples'] = thin(trial['samples']).map { |sample| sample.slice(*KEPT) }
  trial['samples'].each { |sample| sample['ledger']&.store('processes', []) }
  trial['log_tail'] = ''
  load = trial['load'] or next
  load['metrics'] = {}
  load['latency_hdr'] = load['service_hdr'] = nil
  load['steps'].each do |step|
    step['broadcasts'] = []
    step['times'] = step['times'].slice('complete', 'own', 'ack').transform_values { |times| times.merge('hdr' => '') }
  end
end
puts JSON.generate(export)
