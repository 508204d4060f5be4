# frozen_string_literal: true

# What the blog consists of.
class Post < ActiveRecord::Base
  has_many :comments

  def self.newest
    order(id: :desc).limit(10)
  end
end

# What a reader wrote below a post.
class Comment < ActiveRecord::Base
  belongs_to :post
end
