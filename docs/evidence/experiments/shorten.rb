# frozen_string_literal: true

# Makes of `carat report --json` what is kept under docs/: every trial's metrics, its memory at about 16 times, the
# figures of its load and its last ledger; without histograms, logs and single processes. A sample that has a moment of its
# own, such as "ready" or "end", is always kept. `carat report` reads the file again, and crates/carat/examples/restore.rs makes
# a results file of it that a run continues:
#   carat report results/extend.carat --json --share | ruby docs/evidence/experiments/shorten.rb > docs/evidence/experiments/4-extend-full.json
require 'json'

SAMPLES = 16
KEPT = %w[at_ms moment processes rss pss uss shared answered partial ledger].freeze

# The samples of moments always stay, the ledger's too. In older files the last sample holds the ledger. Of the others the
# first stays and the last of each of 16 equal times: what is restored from the result and shortened again stays the same.
def thin(samples)
  return [] if samples.empty?

  began, ended = samples.first['at_ms'], samples.last['at_ms']
  times = samples.group_by { |sample| ((sample['at_ms'] - began) * SAMPLES / [ended - began, 1].max).clamp(..(SAMPLES - 1)) }
  samples.select { |sample| sample['moment'] || sample['ledger'] } | samples.first(1) | times.values.map(&:last)
end

# What is kept of a sample. A complete one is not called that.
def shortened(sample)
  sample.slice(*KEPT).reject { |name, value| name == 'partial' && !value }
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
  trial['samples'] = kept.sort_by { |sample| sample['at_ms'] }.map { |sample| shortened(sample) }
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
