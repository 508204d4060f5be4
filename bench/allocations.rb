# frozen_string_literal: true

# What samples of allocations take from a program that does nothing but allocate: the same loops with and without them, in
# turns within one process, on the Ruby in PATH.

require 'tmpdir'

PROGRAM = File.read(File.expand_path('allocations_inside.rb', __dir__))
VARIABLES = { 'NAME' => RUBY_VERSION, 'ROUNDS' => ENV.fetch('ROUNDS', '15') }.freeze

puts "\n## Allocations with and without samples, in turns: medians (least to most)\n\n"
['Ruby | allocates | without | with | more | ratio | pairs', (['---'] * 7).join(' | ')].each { |cells| puts "| #{cells} |" }
Dir.mktmpdir do |folder|
  record = [ENV.fetch('CARAT'), 'record', '--no-look', '-o', "#{folder}/r.jsonl"]
  system(VARIABLES, *record, '--', 'ruby', '-e', PROGRAM, out: File::NULL, err: File::NULL)
  found = File.readlines("#{folder}/r.log").grep(/\A\|/)
  abort "error: it printed nothing: #{File.read("#{folder}/r.log")}" if found.empty?
  puts found
end
