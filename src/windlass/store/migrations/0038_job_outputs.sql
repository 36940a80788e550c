-- What the last output file of each job said, sealed. Servers of earlier versions stop changing this database: they would
-- store outputs as variables, under names that runs choose.
CREATE TABLE job_output (
    job TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    sealed BYTEA NOT NULL
);
