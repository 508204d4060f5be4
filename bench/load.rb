# frozen_string_literal: true

# The cost of the load generator, compared with wrk and a plain tokio-tungstenite client on the same null servers.
# Runs alternate; figures are medians; processor time is that of the whole client process.

require 'json'
require 'open3'
require 'tempfile'
require_relative 'median'

CARAT = ENV.fetch('CARAT')
PEER = ENV.fetch('PEER', 'bench/load-peer/target/release/load-peer')
RUNS = Integer(ENV.fetch('RUNS', '5'))
CLIENTS = 1000
BROADCASTS = Integer(ENV.fetch('BROADCASTS', '200'))
PAYLOAD = 245 # a frame of 346 bytes

# Runs a null server and yields its URL.
def null_server(kind)
  IO.popen([CARAT, 'load', 'null', "--#{kind}"]) do |server|
    yield server.gets.strip
  ensure
    Process.kill('KILL', server.pid)
  end
end

# The output of a command, and the processor seconds it used.
def measured(*command)
  before = Process.times
  output, status = Open3.capture2(*command)
  after = Process.times
  abort "#{command.first} failed: #{output}" unless status.success? || status.exitstatus == 4
  [output, after.cutime + after.cstime - before.cutime - before.cstime]
end

def cable(url, *more)
  output, = measured(CARAT, 'load', 'cable', url, '--json', '--payload', PAYLOAD.to_s, '--steps', '1', *more.map(&:to_s))
  JSON.parse(output)['report']
end

# Prints the cost of a frame; returns the peer's bytes per idle connection.
def frames(url)
  ours = []
  peers = []
  RUNS.times do
    ours << cable(url, '--step-size', CLIENTS, '--broadcasts', BROADCASTS, '--concurrency', 4)['own']
    peers << measured(PEER, url, CLIENTS.to_s, BROADCASTS.to_s, PAYLOAD.to_s).first.split.map(&:to_f)
  end
  cost = median(ours.map { |own| own['cpu_us_per_message'] })
  peer = median(peers.map(&:first))
  puts format('| CPU per received frame | %.2f µs | tokio-tungstenite %.2f µs | %.2f |', cost, peer, cost / peer)
  median(peers.map { |row| row[1] })
end

def memory(url, peer)
  few, many = [1000, 10_000].map do |clients|
    cable(url, '--step-size', clients, '--broadcasts', 10, '--concurrency', 1)['own']['rss_peak']
  end
  puts format('| user memory per idle connection | %d B | tokio-tungstenite %d B | |', (many - few) / 9000, peer)
  puts format('| resident at 10,000 connections | %.2f MB | | |', many / 1e6)
end

# A session like a login: a value is taken, sent back in a form, and bodies are searched.
SCENARIO = <<~TOML
  [[scenario]]
  name = "session"
  steps = [
    { get = "/login", take = { token = { regex = "x+" } } },
    { post = "/login", form = { username = "u{user}", token = "{token}" } },
    { get = "/page", expect_text = "xxx" },
    { get = "/page?q={token}" },
    { post = "/page", json = { text = "{token}" }, expect_status = 200 },
  ]
TOML

# Processor microseconds of carat for a request.
def carat_request(url, *more)
  output, cpu = measured(CARAT, 'load', 'http', url, '-c', '64', '-d', '3s', '--json', *more)
  cpu * 1e6 / JSON.parse(output)['report']['completed']
end

def requests(url)
  rows = { 'HTTP request, 64 connections' => [], 'HTTP request of a scenario of 5 steps' => ['--scenario'] }
  ours = Hash.new { |all, name| all[name] = [] }
  wrks = []
  Tempfile.create(['scenario', '.toml']) do |file|
    file.write(SCENARIO)
    file.close
    RUNS.times do
      rows.each { |name, flags| ours[name] << carat_request(url, *flags.flat_map { |flag| [flag, file.path] }) }
      output, cpu = measured('wrk', '-t1', '-c64', '-d3', url)
      wrks << cpu * 1e6 / output[/(\d+) requests in/, 1].to_f
    end
  end
  wrk = median(wrks)
  ours.each do |name, costs|
    puts format('| CPU per %s | %.2f µs | wrk, one fixed request %.2f µs | %.2f |', name, median(costs), wrk, median(costs) / wrk)
  end
end

puts '| figure | carat | peer | ratio |', '|---|---|---|---|'
peer = null_server('cable') { |url| frames(url) }
null_server('cable') { |url| memory(url, peer) }
null_server('http') { |url| requests(url) }
