# frozen_string_literal: true

require 'fileutils'
require 'rbconfig'

# The blog's SQLite file: created once, from a fixed seed, outside the checkout, and then only read.
module Database
  FILE = ENV.fetch('SQLITE_FILE') do
    File.join(ENV.fetch('XDG_CACHE_HOME') { File.join(Dir.home, '.cache') }, 'carat', 'blog-1.sqlite3')
  end

  # Tells Rails where the file is. Another process creates a missing file, so that the first run uses as much memory
  # as the next.
  def self.prepare
    system(RbConfig.ruby, File.join(__dir__, 'seed.rb'), exception: true) unless File.exist?(FILE)
    ENV['DATABASE_URL'] = url(FILE)
  end

  def self.url(file)
    FileUtils.mkdir_p(File.dirname(file))
    "sqlite3:#{file}"
  end
end
