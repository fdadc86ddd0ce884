-- Version 3 of the schema on PostgreSQL: OSTs and layouts belong to a file system.
DROP INDEX run_osts_by_ost;
DROP INDEX totals_by_nprocs;
ALTER TABLE run_osts ADD COLUMN filesystem_id BIGINT NOT NULL DEFAULT 1 REFERENCES filesystems (filesystem_id);
ALTER TABLE run_osts ALTER COLUMN filesystem_id DROP DEFAULT;
ALTER TABLE run_osts DROP CONSTRAINT run_osts_pkey, ADD PRIMARY KEY (run_id, filesystem_id, ost);
ALTER TABLE totals ADD COLUMN filesystem TEXT NOT NULL DEFAULT '';
ALTER TABLE totals ALTER COLUMN filesystem DROP DEFAULT;
ALTER TABLE totals DROP CONSTRAINT totals_pkey, ADD PRIMARY KEY (app_id, nprocs, stripe_count,
  file_stripe_count, stripe_size, filesystem, shared_file, partial_flag);
CREATE INDEX run_osts_by_ost ON run_osts (filesystem_id, ost, files, total_bytes, io_time);
CREATE INDEX totals_by_nprocs ON totals (nprocs, partial_flag, file_stripe_count, stripe_size, shared_file,
  filesystem, app_id, timed_runs, perf_by_slowest);
