-- The tables of Solid Queue 1 and GoodJob 4 that take part in the life of a job, as the gems' migrations create them.
-- `bigserial` becomes `integer` where the database is SQLite.
CREATE TABLE solid_queue_jobs (
  id bigserial PRIMARY KEY, queue_name varchar NOT NULL, class_name varchar NOT NULL, arguments text,
  priority integer DEFAULT 0 NOT NULL, active_job_id varchar, scheduled_at timestamp(6), finished_at timestamp(6),
  concurrency_key varchar, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);
CREATE INDEX index_solid_queue_jobs_on_active_job_id ON solid_queue_jobs (active_job_id);
CREATE TABLE solid_queue_ready_executions (
  id bigserial PRIMARY KEY, job_id bigint NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE, queue_name varchar NOT NULL,
  priority integer DEFAULT 0 NOT NULL, created_at timestamp(6) NOT NULL);
CREATE UNIQUE INDEX index_solid_queue_ready_executions_on_job_id ON solid_queue_ready_executions (job_id);
CREATE TABLE solid_queue_claimed_executions (
  id bigserial PRIMARY KEY, job_id bigint NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE, process_id bigint,
  created_at timestamp(6) NOT NULL);
CREATE TABLE solid_queue_failed_executions (
  id bigserial PRIMARY KEY, job_id bigint NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE, error text,
  created_at timestamp(6) NOT NULL);
CREATE UNIQUE INDEX index_solid_queue_failed_executions_on_job_id ON solid_queue_failed_executions (job_id);
-- good_job
CREATE TABLE good_jobs (
  id uuid DEFAULT gen_random_uuid() PRIMARY KEY, queue_name text, priority integer, serialized_params jsonb,
  scheduled_at timestamp(6), performed_at timestamp(6), finished_at timestamp(6), error text, created_at timestamp(6) NOT NULL,
  updated_at timestamp(6) NOT NULL, active_job_id uuid, concurrency_key text, cron_key text, retried_good_job_id uuid,
  cron_at timestamp(6), batch_id uuid, batch_callback_id uuid, is_discrete boolean, executions_count integer, job_class text,
  error_event smallint, labels text[], locked_by_id uuid, locked_at timestamp(6));
