# frozen_string_literal: true

# What samples of allocations take from a program that does nothing but allocate: the same loops with and without them, in
# turns within one process, on every Ruby that is here. `bin/roots` makes the Rubies; a Ruby that is not here has no row.

require 'tmpdir'
require_relative 'live_ruby'

ROUNDS = ENV.fetch('ROUNDS', '15')
PROGRAM = File.read(File.expand_path('allocations_inside.rb', __dir__))

def row(*cells)
  puts "| #{cells.join(' | ')} |"
end

puts "\n## Allocations with and without samples, in turns: medians (least to most)\n\n"
row('Ruby', 'allocates', 'without', 'with', 'more', 'ratio', 'pairs')
row(*['---'] * 7)
RUBIES.each do |name, root|
  next unless root.nil? || system(ROOTS, '--check', root, out: File::NULL, err: File::NULL)

  Dir.mktmpdir do |folder|
    command = [*(root ? [ROOTS, '--run', root, '--'] : []), 'ruby', '-e', PROGRAM]
    system({ 'NAME' => name, 'ROUNDS' => ROUNDS }, ENV.fetch('CARAT'), 'record', '--no-look', '-o', "#{folder}/r.jsonl", '--', *command,
           out: File::NULL, err: File::NULL)
    found = File.readlines("#{folder}/r.log").grep(/\A\|/)
    abort "error: #{name} printed nothing: #{File.read("#{folder}/r.log")}" if found.empty?
    puts found
  end
end
