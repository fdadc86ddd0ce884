INSERT INTO filesystems (filesystem_id, filesystem) VALUES (1, '');
ALTER TABLE runs ADD COLUMN filesystem TEXT;
ALTER TABLE decisions ADD COLUMN filesystem TEXT;
UPDATE runs SET filesystem = '' WHERE stripe_count IS NOT NULL;
UPDATE logs SET mtime_ns = -1 WHERE run_key IN (SELECT run_key FROM runs WHERE stripe_count IS NOT NULL);
