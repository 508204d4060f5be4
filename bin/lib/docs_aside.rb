# frozen_string_literal: true

require 'fileutils'
require 'json'

# Markers of a page that are kept in a file beside it, so that a reader of the page's text meets no comment. Each has the text that it
# stands at and the text before it. In memory the markers are put back, so every check sees the page with them.
class Aside
  FOLDER = 'docs/evidence/figures'
  NAME = /^<!-- figures: [\w.-]+ = .+? -->\n+/.freeze
  BLOCK = /^<!-- figures: (?:table|rows|output) .+?-->\n.*?^<!-- end of figures -->\n/m.freeze
  SPAN = %r{<!-- (?:= .+?|published|given|no kept file:.+?) -->.*?<!-- / -->}m.freeze
  MARKED = /#{NAME}|#{BLOCK}|#{SPAN}/m.freeze
  # Characters before a marker by which its place is found again; more where they are not enough.
  BEFORE = 24

  def self.path(page)
    File.join(FOLDER, "#{page}.jsonl")
  end

  def initialize(page)
    @page = page
    @path = Aside.path(page)
  end

  def kept?
    File.file?(@path)
  end

  # The page with its markers; names of files come last, so that no line moves.
  def merged(raw)
    text = +''
    names = +''
    rest = 0
    entries.each do |entry|
      next names << "#{entry['marker']}\n" unless entry.key?('text')

      from, to = find(raw, rest, entry) || raise(FigureError, lost(entry))
      text << raw[rest...from] << around(entry, raw[from...to])
      rest = block?(entry['marker']) ? to + 1 : to
    end
    text << raw[rest..-1].to_s
    text << "\n" unless text.end_with?("\n")
    text << names
  end

  # The page without markers, and the entries that put them back.
  def split(marked)
    raw = +''
    placed = []
    rest = 0
    marked.scan(MARKED) do
      match = Regexp.last_match
      raw << marked[rest...match.begin(0)]
      rest = match.end(0)
      entry, before, after = parts(match[0])
      raw << before
      placed << [entry, raw.size]
      raw << entry.fetch('text', '') << after
    end
    raw << marked[rest..-1]
    [raw.sub(/\n+\z/, "\n"), with_places(raw, placed)]
  end

  def write(entries)
    FileUtils.mkdir_p(File.dirname(@path))
    File.write(@path, entries.map { |entry| "#{JSON.generate(entry)}\n" }.join)
  end

  private

  def entries
    File.readlines(@path).map { |line| JSON.parse(line) }
  end

  def block?(marker)
    marker.start_with?('<!-- figures:')
  end

  # What is kept of a marker and its text, and the space around that text, which stays in the page.
  def parts(marked)
    return [{ 'marker' => marked.strip }, '', ''] if marked.match?(/\A#{NAME}\z/)

    opening, closing = block?(marked) ? [/\A.*?-->\n/m, "<!-- end of figures -->\n"] : [/\A.*?-->/m, '<!-- / -->']
    marker = marked[opening]
    text = marked.delete_prefix(marker).delete_suffix(closing)
    [{ 'marker' => marker, 'text' => text.strip }, text[/\A\s*/], text.strip.empty? ? '' : text[/\s*\z/]]
  end

  def around(entry, text)
    entry['marker'] + text + (block?(entry['marker']) ? "\n<!-- end of figures -->\n" : '<!-- / -->')
  end

  # Gives every entry as much of the text before it as finds its place again.
  def with_places(raw, placed)
    rest = 0
    placed.map do |entry, from|
      next entry unless entry.key?('text')

      length = BEFORE
      length *= 2 until (found = after(raw, from, length, entry)) && find(raw, rest, found)&.first == from || length > raw.size
      rest = from + entry['text'].size
      found
    end
  end

  def after(raw, from, length, entry)
    { 'after' => raw[[from - length, 0].max...from] }.merge(entry)
  end

  # Where the entry's text stands behind what comes before it, not before `rest`; lines may have been broken elsewhere.
  def find(raw, rest, entry)
    words = ->(text) { Regexp.escape(text).gsub(/(?:\\ |\\n|\n)+/, '\s+') }
    pattern = /#{words.call(entry['after'])}(#{words.call(entry['text'])})/
    start = [rest - 2 * entry['after'].size, 0].max
    while (match = pattern.match(raw, start))
      return [match.begin(1), match.end(1)] if match.begin(1) >= rest

      start = match.begin(0) + 1
    end
  end

  def lost(entry)
    "`#{entry['text'].strip.lines.first.to_s.strip}` does not stand after `#{entry['after'].strip}` any more: write its marker there again, " \
      "#{entry['marker'].strip.lines.first.strip}…, and remove its line from #{@path}"
  end
end
