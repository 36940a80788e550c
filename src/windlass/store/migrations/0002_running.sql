-- What a deployment does, and, sealed, exactly what it runs.
ALTER TABLE deployment ADD COLUMN action TEXT NOT NULL DEFAULT 'DEPLOY';
ALTER TABLE deployment ADD COLUMN sealed BYTEA;

-- Which deployment serves, what it was made of, and how many instances of it are wanted now.
ALTER TABLE status ADD COLUMN serving TEXT;
ALTER TABLE status ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE status ADD COLUMN instances BIGINT NOT NULL DEFAULT 0;
CREATE INDEX status_serving ON status (serving);

-- Whose work it is: organizations take turns.
ALTER TABLE work ADD COLUMN org TEXT NOT NULL DEFAULT '';

-- Host names of services; whoever was first keeps a name.
CREATE TABLE host (
    name TEXT PRIMARY KEY,
    service TEXT NOT NULL
);
CREATE INDEX host_service ON host (service);
