# frozen_string_literal: true

# Enqueues jobs without waiting for them: `ruby feed.rb 1000`.
require 'sidekiq'

count = Integer(ARGV.fetch(0, '1000'))
(1..count).each { |number| Sidekiq::Client.push('class' => 'ReplicateJob', 'args' => [number], 'retry' => false) }
puts "#{count} jobs enqueued"
