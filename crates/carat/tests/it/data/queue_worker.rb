# frozen_string_literal: true

# A worker for the tables of Solid Queue or GoodJob, which takes jobs with the statements that the gems use:
# `ruby queue_worker.rb solid_queue FOLDER_OF_POSTGRESQL`, `… solid_queue FILE_OF_SQLITE`, `… good_job FOLDER_OF_POSTGRESQL`.
require 'json'

# Lasts as many milliseconds as the first argument of a job says. `FailJob` fails if the second is a multiple of four.
def perform(job)
  millis, number = job.fetch('arguments')
  sleep(millis / 1000.0)
  raise ArgumentError, "no order\n#{number}" if job.fetch('job_class') == 'FailJob' && (number % 4).zero?
end

def now
  Time.now.utc.strftime('%F %T.%6N')
end

# PostgreSQL over the socket in a folder.
class Postgres
  LOCK = 'FOR UPDATE SKIP LOCKED'

  def initialize(folder)
    require 'pg'
    @connection = PG.connect(host: folder, user: 'replicator', dbname: 'postgres')
  end

  def transaction(&block)
    @connection.transaction(&block)
  end

  def rows(statement, *values)
    @connection.exec_params(statement, values).values
  end
end

# A file of SQLite, which locks the whole database. It waits for that lock while it holds Ruby's, so threads take turns.
class Sqlite
  LOCK = ''
  TURN = Mutex.new

  def initialize(file)
    require 'sqlite3'
    @database = SQLite3::Database.new(file)
    @database.busy_timeout = 10_000
  end

  # The gem's own method does not return what its block does.
  def transaction
    result = nil
    TURN.synchronize { @database.transaction(:immediate) { result = yield } }
    result
  end

  def rows(statement, *values)
    @database.execute(statement.gsub(/\$\d/, '?'), values)
  end
end

# One job of Solid Queue: claimed, performed, and finished or failed.
class SolidQueueWorker
  def initialize(database)
    @database = database
  end

  def work
    id, arguments = claim
    return unless id

    perform(JSON.parse(arguments))
    finish(id) { @database.rows('UPDATE solid_queue_jobs SET finished_at = $1 WHERE id = $2', now, id) }
  rescue ArgumentError => e
    error = JSON.generate(exception_class: e.class.name, message: e.message, backtrace: ['x'] * 50)
    insert = 'INSERT INTO solid_queue_failed_executions (job_id, error, created_at) VALUES ($1, $2, $3)'
    finish(id) { @database.rows(insert, id, error, now) }
  end

  private

  def claim
    @database.transaction do
      ready = 'SELECT job_id FROM solid_queue_ready_executions ORDER BY priority, job_id LIMIT 1'
      id = @database.rows("#{ready} #{@database.class::LOCK}").flatten.first or return nil
      @database.rows('DELETE FROM solid_queue_ready_executions WHERE job_id = $1', id)
      @database.rows('INSERT INTO solid_queue_claimed_executions (job_id, created_at) VALUES ($1, $2)', id, now)
      @database.rows('SELECT id, arguments FROM solid_queue_jobs WHERE id = $1', id).first
    end
  end

  def finish(id)
    @database.transaction do
      yield
      @database.rows('DELETE FROM solid_queue_claimed_executions WHERE job_id = $1', id)
    end
  end
end

# One job of GoodJob.
class GoodJobWorker
  def initialize(database)
    @database = database
  end

  def work
    id, params = claim
    return unless id

    perform(JSON.parse(params))
    @database.rows('UPDATE good_jobs SET finished_at = $1 WHERE id = $2', now, id)
  rescue ArgumentError => e
    @database.rows('UPDATE good_jobs SET finished_at = $1, error = $2 WHERE id = $3', now, "#{e.class}: #{e.message}", id)
  end

  private

  def claim
    @database.rows(<<~SQL, now).first
      UPDATE good_jobs SET performed_at = $1 WHERE id = (
        SELECT id FROM good_jobs WHERE performed_at IS NULL ORDER BY priority, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
      RETURNING id, serialized_params
    SQL
  end
end

gem, place = ARGV
threads = Array.new(3) do
  Thread.new do
    database = File.directory?(place) ? Postgres.new(place) : Sqlite.new(place)
    worker = (gem == 'good_job' ? GoodJobWorker : SolidQueueWorker).new(database)
    loop { worker.work or sleep 0.01 }
  end
end
threads.each { |thread| thread.abort_on_exception = true }
warn 'ready for jobs'
threads.each(&:join)
