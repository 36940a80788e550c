-- Services that were deleted, for good: an engine, a builder and the data directory erase only what is named here.
CREATE TABLE tombstone (
    service TEXT PRIMARY KEY,
    at BIGINT NOT NULL
);
-- Deleted before this table was there: what waits to be taken away, and what the audit still tells of.
INSERT INTO tombstone (service, at) SELECT substr(id, 9), 0 FROM work WHERE kind = 'discard';
INSERT INTO tombstone (service, at)
    SELECT target, max(at) FROM event WHERE kind = 'DELETE' GROUP BY target
    ON CONFLICT (service) DO NOTHING;
