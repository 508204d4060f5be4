# frozen_string_literal: true

# Builds and walks nested property lists: a deep tree of small hashes and strings, marked repeatedly.
def properties(depth)
  return depth.to_s if depth.zero?

  { 'name' => "node #{depth}", 'children' => Array.new(4) { properties(depth - 1) } }
end

def count(node)
  node.is_a?(Hash) ? 1 + node['children'].sum { |child| count(child) } : 1
end

rounds = Integer(ARGV.fetch(0, '100'))
rounds.times { count(properties(7)) }
