# frozen_string_literal: true

# Shows whether compaction can empty heap pages that one object each keeps alive: `ruby wedge.rb` runs both modes, each in
# its own process, and prints one line of JSON for each. `ruby wedge.rb loose|pinned` runs one.
require 'json'
require 'rbconfig'

# Fills many heap pages, drops all objects but about one per page, compacts, and counts pages and free slots.
class Wedge
  OBJECTS = 400_000
  # Slots of the smallest size in a page of 16 KB; pages of 64 KB, as in newer Rubies, then keep four objects.
  EVERY = 400

  # The mode and whether the kept objects are pinned while the heap is compacted.
  MODES = { 'loose' => false, 'pinned' => true }.freeze

  def initialize(mode)
    @mode = mode
    @pinned = MODES.fetch(mode) { abort "unknown mode #{mode}: use one of #{MODES.keys.join(', ')}" }
  end

  def run
    kept = fill
    GC.start
    before = figures(:before)
    after = @pinned ? on_the_stack(kept, 0) { compact } : compact
    puts JSON.generate({ mode: @mode, ruby: RUBY_VERSION, kept_objects: kept.size, **before, **after })
  end

  private

  # A separate method, so that no dropped object stays on this thread's stack.
  def fill
    all = Array.new(OBJECTS) { Object.new }
    (0...OBJECTS).step(EVERY).map { |number| all[number] }
  end

  # Compacts and sweeps; returns the figures.
  def compact
    GC.compact
    GC.start
    figures(:after)
  end

  # Calls the block with every kept object in a local variable of a frame of its own. Ruby does not move what the stack
  # of a thread refers to, as it does not move what a C extension marks without `rb_gc_mark_movable`.
  def on_the_stack(kept, number, &block)
    object = kept[number]
    result = number + 1 < kept.size ? on_the_stack(kept, number + 1, &block) : yield
    object && result
  end

  # Pages that hold objects, the free share of all slots, and resident megabytes.
  def figures(moment)
    stat = GC.stat
    free = 1.0 - (stat[:heap_live_slots].to_f / stat[:heap_available_slots])
    rss = File.read('/proc/self/status')[/^VmRSS:\s+(\d+) kB/, 1].to_i * 1024
    { "pages_#{moment}": stat[:heap_eden_pages], "free_share_#{moment}": free.round(3), "rss_mb_#{moment}": (rss / 1e6).round(1) }
  end
end

if ARGV.empty?
  Wedge::MODES.each_key { |mode| system(RbConfig.ruby, __FILE__, mode, exception: true) }
else
  Wedge.new(ARGV.first).run
end
