# frozen_string_literal: true

require 'json'
require 'net/http'
require 'sidekiq'
require_relative 'database'

# Fetches one response, makes random strings, and writes the response to the database.
class ReplicateJob
  include Sidekiq::Worker
  sidekiq_options retry: false

  SOURCE = ENV.fetch('SOURCE_URL', 'http://127.0.0.1:9393')

  def perform(number)
    body = Net::HTTP.get(URI("#{SOURCE}/#{number}"))
    noise = random_strings(Random.new(number))
    rows = JSON.parse(body)
    Database.store(number: number, rows: rows.size, body: body)
    noise.sum(&:bytesize)
  end

  private

  # Strings of many sizes, alive until the job ends: this mixture fragments an arena.
  def random_strings(random)
    Array.new(200) { random.bytes(random.rand(16..8192)) }
  end
end
