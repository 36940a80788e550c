-- The version of each job that its runs start, and when it is due next; a job that waits for events is never due.
CREATE TABLE timetable (
    job TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    deployment TEXT NOT NULL,
    due BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX timetable_due ON timetable (due, job);

-- Runs of jobs. `due` is the time for which a run was scheduled, or 0; `awaited_by` the deployment that waits for its
-- end, or empty.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    job TEXT NOT NULL,
    number BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    deployment TEXT NOT NULL,
    cause TEXT NOT NULL,
    status TEXT NOT NULL,
    due BIGINT NOT NULL,
    created BIGINT NOT NULL,
    awaited_by TEXT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX run_number ON run (job, number);
-- A due time has one run, whatever servers do.
CREATE UNIQUE INDEX run_due ON run (job, due) WHERE due > 0;
CREATE INDEX run_open ON run (job) WHERE status IN ('QUEUED', 'RUNNING');
CREATE INDEX run_awaited ON run (awaited_by, number) WHERE awaited_by <> '';

-- The number of the last run of each job: purged runs leave their numbers behind.
CREATE TABLE run_count (job TEXT PRIMARY KEY, runs BIGINT NOT NULL);
