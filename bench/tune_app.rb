# frozen_string_literal: true

# Searches the best settings of a real app: of the blog on Ruby 3.3, of Redmine, or of the blog with knobs that do nothing.
#   bin/bench tune --app blog|redmine|null [FOLDER]   into target/tune-NAME; a repeated call continues
# CARAT names the program. Prints a Markdown table and what `carat tune` printed. The seed is always the same.

require_relative 'tune_search'

WORKLOADS = File.expand_path('../workloads', __dir__)
# File and options of each search.
SEARCHES = {
  'blog' => ['blog/tune.toml', '--set', 'root={roots}/trixie'],
  'null' => ['blog/tune-null.toml', '--set', 'root={roots}/trixie'],
  'redmine' => ['redmine/tune.toml']
}.freeze
SEED = '1'

name, folder = ARGV
file, *options = SEARCHES.fetch(name.to_s) { abort "usage: bin/bench tune --app #{SEARCHES.keys.join('|')} [FOLDER]" }
search = TuneSearch.new(File.join(WORKLOADS, file), folder || "target/tune-#{name}", '--seed', SEED, *options)
puts '| search | change of memory % | trials | minutes |', '|---|---|--:|--:|'
puts "| #{[name, search.saving, search.outcome['trials'], search.minutes].join(' | ')} |", ''
puts name, '```', search.text.chomp, '```'
