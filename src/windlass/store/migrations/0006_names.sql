-- Which port of its service each name is for (empty: the service itself), and the name that was wished for it.
-- `number` counts reservations: of two services that had one name, the later one has the greater number.
ALTER TABLE host ADD COLUMN port TEXT NOT NULL DEFAULT '';
ALTER TABLE host ADD COLUMN wish TEXT NOT NULL DEFAULT '';
ALTER TABLE host ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
INSERT INTO counter (name, value) VALUES ('host', 0);
