# frozen_string_literal: true

require 'fileutils'
require 'open3'
require_relative 'docs_links'

# The pages of docs/ as one book: its table of contents, its size, and the site that mdBook makes of it.
module Book
  SUMMARY = 'docs/SUMMARY.md'
  SITE = 'target/site'
  MDBOOK = '0.4.52'
  # A reader is not expected to read the evidence and what one looks up from the first word to the last.
  LOOKED_UP = %w[docs/evidence/ docs/reference/].freeze
  MOST_WORDS = 30_000

  # What is wrong with the book, in words.
  def self.faults(pages)
    return [] unless File.file?(SUMMARY)

    listed = File.read(SUMMARY).scan(/\]\(([^)#]+\.md)\)/).flatten.map { |path| File.join('docs', path) }
    unlisted = pages.grep(%r{\Adocs/}) - listed - [SUMMARY]
    faults = unlisted.map { |path| "#{path}: #{SUMMARY} does not list it, so the site has no such page" }
    read = words(pages)
    faults << "docs/: #{read} words outside Evidence and Reference; at most #{MOST_WORDS}" if read > MOST_WORDS
    faults
  end

  # Words of the pages that are read from the first to the last, without marker comments.
  def self.words(pages)
    read = pages.select { |path| path.start_with?('docs/') && !path.start_with?(*LOOKED_UP) && path != SUMMARY }
    read.sum { |path| File.read(path).gsub(/<!--.*?-->/m, '').split.size }
  end

  def self.build
    FileUtils.rm_rf(SITE)
    system(mdbook, 'build', 'docs') or abort 'error: mdBook could not build docs/'
    pages = Dir["#{SITE}/**/*.html"]
    pages.each { |page| File.write(page, without_dead_links(page)) }
    puts "#{SITE}/index.html: #{pages.size} pages"
    true
  end

  # On GitHub a link can lead to the code; the site has only the book, so there such a link becomes text.
  def self.without_dead_links(page)
    File.read(page).gsub(%r{<a href="([^"]+)">(.*?)</a>}m) do |whole|
      link, text = Regexp.last_match.captures
      # mdBook makes a folder's README its index, and leaves the links to it as they are.
      link = link.sub(/\bREADME\.html\b/, 'index.html')
      file = link.split(/[#?]/).first.to_s
      dead = !file.empty? && !file.match?(PageLinks::ELSEWHERE) && !File.exist?(File.join(File.dirname(page), file))
      dead ? text : %(<a href="#{link}">#{text}</a>)
    end
  end

  # mdBook of this version, built from its crate once.
  def self.mdbook
    tools = File.expand_path(ENV.fetch('CARAT_TOOLS', '~/.cache/carat/tools'))
    program = File.join(tools, 'bin/mdbook')
    return program if File.executable?(program) && Open3.capture2(program, '--version').first.include?(MDBOOK)

    warn "docs: building mdBook #{MDBOOK} from its crate, once; this takes some minutes"
    system('cargo', 'install', '--quiet', '--locked', '--root', tools, '--no-default-features', '--features', 'search',
           'mdbook', '--version', "=#{MDBOOK}") or abort 'error: cargo could not build mdBook'
    program
  end
end
