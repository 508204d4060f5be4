# frozen_string_literal: true

require 'active_record'
require_relative 'database'
require_relative 'models'

# Fills a database under a temporary name and renames it, so that no process opens an incomplete one.
module Seed
  POSTS = 50
  COMMENTS = 20
  WORDS = %w[memory of a server grows while nobody looks and the kernel counts every page twice or never].freeze

  def self.run
    unfinished = "#{Database::FILE}.#{Process.pid}"
    ActiveRecord::Base.establish_connection(Database.url(unfinished))
    create_tables
    ActiveRecord::Base.transaction { POSTS.times { |number| write_post(Random.new(number), number) } }
    ActiveRecord::Base.connection_pool.disconnect!
    File.rename(unfinished, Database::FILE)
  end

  def self.create_tables
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define do
      create_table :posts do |t|
        t.string :title
        t.text :body
      end
      create_table :comments do |t|
        t.references :post, index: true
        t.string :author
        t.text :body
      end
    end
  end

  def self.write_post(random, number)
    post = Post.create!(title: "Post #{number}: #{text(random, 5)}", body: text(random, 200))
    COMMENTS.times { post.comments.create!(author: text(random, 2), body: text(random, 30)) }
  end

  def self.text(random, words)
    Array.new(words) { WORDS.sample(random: random) }.join(' ')
  end
  private_class_method :create_tables, :write_post, :text
end

Seed.run
