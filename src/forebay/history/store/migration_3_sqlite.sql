-- Version 3 of the schema on SQLite, which cannot change a primary key: OSTs and layouts belong to a file system.
DROP INDEX run_osts_by_ost;
DROP INDEX totals_by_nprocs;
ALTER TABLE run_osts RENAME TO run_osts_2;
ALTER TABLE totals RENAME TO totals_2;
CREATE TABLE run_osts (run_id INTEGER NOT NULL, filesystem_id INTEGER NOT NULL, ost BIGINT NOT NULL,
  files BIGINT NOT NULL, total_bytes BIGINT NOT NULL, io_time FLOAT NOT NULL,
  alone_files BIGINT DEFAULT '0' NOT NULL, alone_bytes BIGINT DEFAULT '0' NOT NULL,
  alone_time FLOAT DEFAULT '0' NOT NULL, slowness FLOAT, PRIMARY KEY (run_id, filesystem_id, ost),
  FOREIGN KEY(run_id) REFERENCES runs (run_id) ON DELETE CASCADE,
  FOREIGN KEY(filesystem_id) REFERENCES filesystems (filesystem_id)) WITHOUT ROWID;
CREATE TABLE totals (app_id INTEGER NOT NULL, nprocs BIGINT NOT NULL, stripe_count BIGINT NOT NULL,
  file_stripe_count BIGINT NOT NULL, stripe_size BIGINT NOT NULL, filesystem TEXT NOT NULL,
  shared_file BOOLEAN NOT NULL, partial_flag BOOLEAN NOT NULL, runs BIGINT NOT NULL,
  timed_runs BIGINT NOT NULL, perf_by_slowest BIGINT NOT NULL, total_bytes BIGINT NOT NULL,
  bytes_read BIGINT NOT NULL, bytes_written BIGINT NOT NULL, requests BIGINT NOT NULL,
  pattern_requests BIGINT NOT NULL, seq_requests BIGINT NOT NULL, io_less_1k BIGINT NOT NULL,
  io_1k_to_100k BIGINT NOT NULL, PRIMARY KEY (app_id, nprocs, stripe_count, file_stripe_count, stripe_size,
  filesystem, shared_file, partial_flag), FOREIGN KEY(app_id) REFERENCES apps (app_id));
INSERT INTO run_osts (run_id, filesystem_id, ost, files, total_bytes, io_time, alone_files, alone_bytes,
  alone_time, slowness) SELECT run_id, 1, ost, files, total_bytes, io_time, alone_files, alone_bytes,
  alone_time, slowness FROM run_osts_2;
INSERT INTO totals (app_id, nprocs, stripe_count, file_stripe_count, stripe_size, filesystem, shared_file,
  partial_flag, runs, timed_runs, perf_by_slowest, total_bytes, bytes_read, bytes_written, requests,
  pattern_requests, seq_requests, io_less_1k, io_1k_to_100k) SELECT app_id, nprocs, stripe_count,
  file_stripe_count, stripe_size, '', shared_file, partial_flag, runs, timed_runs, perf_by_slowest,
  total_bytes, bytes_read, bytes_written, requests, pattern_requests, seq_requests, io_less_1k,
  io_1k_to_100k FROM totals_2;
DROP TABLE run_osts_2;
DROP TABLE totals_2;
CREATE INDEX run_osts_by_ost ON run_osts (filesystem_id, ost, files, total_bytes, io_time);
CREATE INDEX totals_by_nprocs ON totals (nprocs, partial_flag, file_stripe_count, stripe_size, shared_file,
  filesystem, app_id, timed_runs, perf_by_slowest);
