-- Who did it, with which kind of client, and to what: an audit asks for these. `subject` is what people look for:
-- a variable's events are its service's. Of events from before, these columns are empty.
ALTER TABLE event ADD COLUMN family TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN subject_family TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN actor TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN environment TEXT NOT NULL DEFAULT '';
CREATE INDEX event_subject ON event (subject, seq) WHERE subject <> '';
CREATE INDEX event_project ON event (project, seq) WHERE project <> '';
CREATE INDEX event_environment ON event (environment, seq) WHERE environment <> '';

-- Over the event and the hash of the one before it. Events from before have none: the chain begins after them,
-- and the counter says where.
ALTER TABLE event ADD COLUMN hash BYTEA;
INSERT INTO counter (name, value) SELECT 'unchained', value FROM counter WHERE name = 'event';

-- Tokens that are no more, so that whoever still uses one can be named.
CREATE TABLE revoked (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    name TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX revoked_id ON revoked (id);
CREATE INDEX revoked_at ON revoked (at);
