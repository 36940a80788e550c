-- The lane of each piece of work is kept with it, and what waits is found by lane: the longest-waiting first, or the
-- longest-waiting of each organization. What is held is little, and found by the end of its lease.
ALTER TABLE work ADD COLUMN lane BIGINT NOT NULL DEFAULT 0;
UPDATE work SET lane = CASE kind WHEN 'reconcile' THEN 1 WHEN 'deliver' THEN 2 ELSE 0 END;
DROP INDEX work_due;
CREATE INDEX work_waiting ON work (lane, due, id, org) WHERE lease = 0;
CREATE INDEX work_turn ON work (lane, org, due, id) WHERE lease = 0;
CREATE INDEX work_held ON work (lease) WHERE lease > 0;

-- Few deployments of a service wait or are under way, however many there were.
CREATE INDEX deployment_open ON deployment (service, number) WHERE status IN ('QUEUED', 'BUILDING', 'DEPLOYING');

-- With what each list was changed: whoever has read it knows whether it is still the same.
ALTER TABLE tally ADD COLUMN edits BIGINT NOT NULL DEFAULT 0;
