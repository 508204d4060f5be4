# frozen_string_literal: true

# Makes of `carat report --json` what is kept under docs/: every trial's metrics, its memory at up to 16 times, the
# figures of its load and its last ledger; without histograms, logs and single processes. A sample that has a moment of its
# own, such as "ready" or "end", is always kept. `carat report` reads the file again:
#   carat report results/extend.carat --json --share | ruby docs/experiments/shorten.rb > docs/experiments/4-extend.json
require 'json'

SAMPLES = 16
KEPT = %w[at_ms moment processes rss pss uss shared answered ledger].freeze

# The samples of moments always stay, the ledger's too. In older files the last sample holds the ledger.
def thin(samples)
  step = (samples.size / SAMPLES.to_f).ceil.clamp(1..)
  samples.each_with_index.select do |sample, at|
    sample['moment'] || sample['ledger'] || ((samples.size - 1 - at) % step).zero?
  end.map(&:first)
end

# The last sample with proportional memory in every step of a cable load, so that memory by connections stays.
def ends_of_steps(trial)
  began = trial.dig('load', 'window_ms', 0) or return []
  offset = began - (trial['load_window_ms'] or return []).first
  trial['load']['steps'].filter_map do |step|
    from, to = step['window_ms'].map { |at| at - offset }
    trial['samples'].reverse.find { |sample| sample['pss'] && !sample['partial'] && sample['at_ms'].between?(from, to) }
  end
end

export = JSON.parse($stdin.read)
export['results']['trials'].each do |trial|
  kept = thin(trial['samples']) | ends_of_steps(trial)
  trial['samples'] = kept.sort_by { |sample| sample['at_ms'] }.map { |sample| sample.slice(*KEPT) }
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
