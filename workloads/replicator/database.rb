# frozen_string_literal: true

require 'active_record'

# The database of the jobs: the SQLite file `SQLITE_FILE`, or the one that `REPLICATOR_DATABASE_URL` names (postgres://…).
module Database
  # One fetched response.
  class Replica < ActiveRecord::Base; end

  POOL = 30
  # Rows that stay: about a gigabyte, whatever the number of jobs.
  KEPT = 20_000
  BATCH = 1000
  TURN = Mutex.new

  def self.open
    ActiveRecord::Base.establish_connection(configuration)
    ActiveRecord::Base.connection.execute('PRAGMA journal_mode = WAL') unless ENV['REPLICATOR_DATABASE_URL']
    ActiveRecord::Schema.verbose = false
    ActiveRecord::Schema.define do
      create_table(:replicas, if_not_exists: true) do |t|
        t.integer :number
        t.integer :rows
        t.text :body
      end
    end
  end

  # Writes one row. SQLite waits for its file lock while it holds Ruby's lock, so two writers would block each other
  # until the timeout. A mutex prevents that; PostgreSQL does not need it.
  def self.store(row)
    ActiveRecord::Base.connection_pool.with_connection do
      ENV['REPLICATOR_DATABASE_URL'] ? write(row) : TURN.synchronize { write(row) }
    end
  end

  def self.write(row)
    Replica.create!(row)
    number = row.fetch(:number)
    Replica.where('number <= ?', number - KEPT).delete_all if (number % BATCH).zero?
  end
  private_class_method :write

  def self.configuration
    return { url: ENV['REPLICATOR_DATABASE_URL'], pool: POOL } if ENV['REPLICATOR_DATABASE_URL']

    { adapter: 'sqlite3', database: ENV.fetch('SQLITE_FILE'), pool: POOL, timeout: 20_000 }
  end
  private_class_method :configuration
end
