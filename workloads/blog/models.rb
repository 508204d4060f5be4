# frozen_string_literal: true

# A blog post.
class Post < ActiveRecord::Base
  has_many :comments

  def self.newest
    order(id: :desc).limit(10)
  end
end

# A reader's comment on a post.
class Comment < ActiveRecord::Base
  belongs_to :post
end
