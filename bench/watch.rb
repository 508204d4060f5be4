# frozen_string_literal: true

# What `carat watch` costs: its processor time and memory beside Rubies of a known size.
#   bin/bench watch [PROCESSES [MEGABYTES [MINUTES]]]   20 processes of 500 MB, 10 minutes; needs the memory for them
# The processes are forked from one that kept the memory, written anew in each, so that all of it is private.

require 'tmpdir'

count, megabytes, minutes = ARGV.map(&:to_f)
count = (count || 20).to_i
megabytes ||= 500
minutes ||= 10
carat = ENV.fetch('CARAT')
hertz = `getconf CLK_TCK`.to_i

processes = Array.new(count) do |number|
  fork do
    Process.setproctitle("puma: cluster worker #{number}: 1 [watched]")
    kept = Array.new((megabytes * 1_000_000 / 2000).to_i) { |n| "#{n}" * (1900 / n.to_s.size) }
    # A little work, so that pages are touched as in a server.
    loop { kept[rand(kept.size)] = 'x' * 1900; sleep 0.01 }
  end
end

ticks = ->(pid) { File.read("/proc/#{pid}/stat").rpartition(')').last.split.values_at(11, 12).sum(&:to_i) }
memory = ->(pid, name) { File.read("/proc/#{pid}/status")[/^#{name}:\s+(\d+)/, 1].to_i * 1024 / 1e6 }

Dir.mktmpdir do |folder|
  sleep 1 until processes.all? { |pid| memory[pid, 'VmRSS'] >= megabytes * 0.95 }
  store = File.join(folder, 'watch.db')
  watch = spawn(carat, 'watch', '--store', store, '--match', 'watched', out: File::NULL, err: "#{folder}/err")
  rows = []
  (minutes * 6).to_i.times do
    sleep 10
    rows << [ticks[watch], memory[watch, 'RssAnon'], memory[watch, 'VmRSS']]
  end
  highest = memory[watch, 'VmHWM']
  Process.kill(:TERM, watch)
  Process.wait(watch)
  half = rows.size / 2
  share = ->(from, to) { 100.0 * (rows[to][0] - rows[from][0]) / hertz / ((to - from) * 10) }
  puts "#{count} Rubies of #{megabytes.to_i} MB for #{minutes.to_i} min, Linux #{`uname -r`.strip}, #{`nproc`.strip} cores"
  puts '', '| figure | value |', '|---|--:|'
  puts format('| processor time, whole run | %.2f %% of a core |', 100.0 * rows.last[0] / hertz / (rows.size * 10))
  puts format('| processor time, second half | %.2f %% of a core |', share[half, -1 + rows.size])
  puts format('| own memory at the end, without files | %.1f MB |', rows.last[1])
  puts format('| resident at the end | %.1f MB |', rows.last[2])
  puts format('| resident, highest | %.1f MB |', highest)
  puts format('| store | %.2f MB |', File.size(store) / 1e6)
  puts '', File.read("#{folder}/err")
ensure
  processes.each { |pid| Process.kill(:KILL, pid) }
  processes.each { |pid| Process.wait(pid) }
end
