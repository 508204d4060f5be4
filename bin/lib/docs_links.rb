# frozen_string_literal: true

require 'pathname'

# Links of Markdown pages to files of this repository and to headings: the ones that lead nowhere.
class PageLinks
  FENCE = /^ *(```|~~~).*?^ *\1/m.freeze
  CODE = /`[^`\n]+`/.freeze
  LINK = /\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/.freeze
  IMAGE = /<(?:img|source)[^>]+(?:src|srcset)="([^"\s]+)"/.freeze
  ELSEWHERE = /\A(?:[a-z][a-z0-9+.-]*:|\/\/)/.freeze

  def initialize(path)
    @path = path
    @text = PageLinks.without_code(File.read(path))
  end

  # `PATH:LINE: …` of every link that leads nowhere.
  def broken
    @text.lines.each_with_index.flat_map do |line, place|
      links = (line.scan(LINK) + line.scan(IMAGE)).flatten
      links.map { |link| fault(link) }.compact.map { |fault| "#{@path}:#{place + 1}: #{fault}" }
    end
  end

  # Keeps the lines, so that places stay right.
  def self.without_code(text)
    [FENCE, CODE, /<!--.*?-->/m].reduce(text) { |rest, part| rest.gsub(part) { |found| found.gsub(/[^\n]+/, ' ') } }
  end

  # The anchors of a page: its headings as GitHub and mdBook name them, and what is named by hand.
  def self.anchors(path)
    @anchors ||= {}
    @anchors[path] ||= begin
      text = File.read(path).gsub(FENCE, '')
      seen = Hash.new(-1)
      headings = text.scan(/^\#{1,6} +(.+?) *$/).flatten.map do |heading|
        name = anchor(heading)
        (seen[name] += 1).zero? ? name : "#{name}-#{seen[name]}"
      end
      headings + text.scan(/<a (?:id|name)="([^"]+)"/).flatten
    end
  end

  def self.anchor(heading)
    plain = heading.gsub(/<!--.*?-->/, '').gsub(/\[([^\]]*)\]\([^)]*\)/, '\1').delete('`*')
    plain.strip.downcase.gsub(/[^\p{L}\p{N}\s_-]/, '').gsub(/\s/, '-')
  end

  private

  def fault(link)
    return if link.match?(ELSEWHERE)

    path, anchor = link.split('#', 2)
    target = path.empty? ? @path : Pathname.new(File.join(File.dirname(@path), path)).cleanpath.to_s
    return "the link `#{link}` leads out of the repository" if target.start_with?('..')
    return "the link `#{link}` leads to #{target}, which does not exist" unless File.exist?(target)
    return unless anchor && target.end_with?('.md') && !PageLinks.anchors(target).include?(anchor)

    "the link `#{link}` leads to `##{anchor}`, and #{target} has no such heading"
  end
end
