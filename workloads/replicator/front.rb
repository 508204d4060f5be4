# frozen_string_literal: true

require 'json'
require 'redis'
require 'securerandom'
require 'socket'

# Lets an HTTP load drive the jobs: `GET /work` enqueues a job and gets its response when Sidekiq has done it.
#
# One thread reads, one waits for finished jobs. Its memory is small and does not depend on Sidekiq's settings.
class Front
  DONE = 'replicator:done'
  QUEUE = 'queue:default'

  def initialize(port, redis_url)
    @redis_url = redis_url
    @enqueue = Redis.new(url: redis_url)
    @server = TCPServer.new('127.0.0.1', port)
    @clients = []
    @waiting = {}
    @number = 0
  end

  def run
    $stdout.sync = true
    puts 'the front listens'
    loop do
      ready, = IO.select([@server, *@clients])
      ready.each { |io| io == @server ? @clients << @server.accept : serve(io) }
    end
  end

  private

  def serve(client)
    line = client.gets or return drop(client)
    nil until client.gets == "\r\n"
    case line
    when %r{\AGET /work } then enqueue(client)
    else respond(client, 404, '{"error":"GET /work is all there is"}')
    end
  rescue SystemCallError, IOError
    drop(client)
  end

  # The job format that Sidekiq documents for clients in other languages.
  def enqueue(client)
    # Started with the first job, because Redis may start after the front.
    @answers ||= Thread.new { answer_finished_jobs }.tap { |thread| thread.abort_on_exception = true }
    @number += 1
    @waiting[@number] = client
    job = { class: 'ReplicateJob', args: [@number], retry: false, queue: 'default', jid: SecureRandom.hex(12),
            created_at: Time.now.to_f, enqueued_at: Time.now.to_f }
    @enqueue.lpush(QUEUE, JSON.generate(job))
  end

  def answer_finished_jobs
    redis = Redis.new(url: @redis_url, timeout: 60)
    loop do
      _, outcome = redis.brpop(DONE, timeout: 30)
      finish(outcome) if outcome
    end
  end

  def finish(outcome)
    parsed = JSON.parse(outcome)
    client = @waiting.delete(parsed.fetch('number')) or return
    respond(client, parsed.key?('error') ? 500 : 200, outcome)
  rescue SystemCallError, IOError
    nil # the client closed the connection; the reading thread drops it
  end

  def respond(client, status, body)
    client.write("HTTP/1.1 #{status} #{status == 200 ? 'OK' : 'Error'}\r\ncontent-type: application/json\r\n" \
                 "content-length: #{body.bytesize}\r\n\r\n#{body}")
  end

  def drop(client)
    @clients.delete(client)
    client.close
  end
end

Front.new(Integer(ENV.fetch('PORT', '9292')), ENV.fetch('REDIS_URL', 'redis://127.0.0.1:6379')).run if $PROGRAM_NAME == __FILE__
