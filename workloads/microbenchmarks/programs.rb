# frozen_string_literal: true

# One round of each micro-benchmark. They have no input or output and spend most time in the garbage collector.
module Programs
  # Grows an array by one element at a time: the collector marks an ever longer array of live objects.
  def self.growarray
    grown = []
    100_000.times { |number| grown << number.to_s }
  end

  # Builds and walks nested property lists: a deep tree of small hashes and strings, marked repeatedly.
  def self.plist
    count(properties(7))
  end

  # Shrinks an array by one element at a time: the collector finds ever more garbage among live objects.
  def self.shrinkarray
    full = Array.new(100_000, &:to_s)
    full.pop until full.empty?
  end

  def self.properties(depth)
    return depth.to_s if depth.zero?

    { 'name' => "node #{depth}", 'children' => Array.new(4) { properties(depth - 1) } }
  end

  def self.count(node)
    node.is_a?(Hash) ? 1 + node['children'].sum { |child| count(child) } : 1
  end
  private_class_method :properties, :count
end
