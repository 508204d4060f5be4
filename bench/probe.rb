# frozen_string_literal: true

# The cost of the probe in the smallest Rails app: instructions per request, counted by callgrind, and memory. Time is
# too noisy: on a small machine two equal servers differ by more than a percent. Instruction counts agree between runs
# to a few in ten thousand; they leave out cache misses.
# Needs valgrind; about three minutes.

require 'open3'
require 'tmpdir'
require_relative 'median'

CARAT = File.expand_path(ENV.fetch('CARAT'))
APP = File.expand_path('../workloads/rails-hello', __dir__)
ME = File.expand_path(__FILE__)
FEW = 200
MANY = 1200
MEMORY_RUNS = 5

# Runs in the measured process: serves requests without sockets and threads, then prints its anonymous memory.
def serve(requests)
  require 'rack'
  app, = Rack::Builder.parse_file('config.ru')
  answers = Array.new(requests) { app.call(Rack::MockRequest.env_for('/hello')).first }
  abort 'a request failed' unless answers.uniq == [200]
  puts File.read('/proc/self/smaps_rollup')[/^Anonymous: +(\d+)/, 1].to_i * 1024
end

# The variables with which `carat record` makes a server load the probe.
def environment(folder)
  _, error, status = Open3.capture3(CARAT, 'record', '-o', "#{folder}/x.jsonl", '--', 'env')
  abort error unless status.success?
  Dir.mkdir("#{folder}/pages")
  variables = File.readlines("#{folder}/x.log", chomp: true).to_h { |line| line.split('=', 2) }
  variables.slice('RUBYOPT', 'CARAT_PROBE').merge('CARAT_PAGES' => "#{folder}/pages")
end

def run(environment, requests, *before)
  output, status = Open3.capture2e(environment, *before, 'ruby', ME, requests.to_s, chdir: APP)
  status.success? ? output : abort(output)
end

def instructions(environment, requests)
  run(environment, requests, 'valgrind', '--tool=callgrind', "--callgrind-out-file=#{File::NULL}")[/Collected : (\d+)/, 1].to_i
end

def per_request(environment)
  few, many = [FEW, MANY].map { |requests| Thread.new { instructions(environment, requests) } }.map(&:value)
  (many - few) / (MANY - FEW).to_f
end

def memory(environment)
  median(Array.new(MEMORY_RUNS) { run(environment, MANY).to_i })
end

if ARGV.any?
  serve(Integer(ARGV.first))
else
  Dir.mktmpdir do |folder|
    variants = [{}, environment(folder)]
    without, with = variants.map { |variant| per_request(variant) }
    without_bytes, with_bytes = variants.map { |variant| memory(variant) }
    # Otherwise this would measure nothing.
    abort 'the probe was not loaded' if Dir.empty?("#{folder}/pages")
    puts '| figure | carat | peer |', '|---|---|---|'
    puts format('| instructions per request with the probe | %.3f million (%+.2f %%) | without it %.3f million |',
                with / 1e6, 100 * (with / without - 1), without / 1e6)
    puts format('| own memory of the process with the probe | %+.2f MB | without it %.2f MB |', (with_bytes - without_bytes) / 1e6,
                without_bytes / 1e6)
  end
end
