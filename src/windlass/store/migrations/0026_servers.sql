-- What other servers tell of a place: the artifacts that its engine takes, and where its gateway is reached.
ALTER TABLE place_owner ADD COLUMN takes TEXT NOT NULL DEFAULT '';
ALTER TABLE place_owner ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE place_owner ADD COLUMN domain TEXT NOT NULL DEFAULT '';
ALTER TABLE place_owner ADD COLUMN port BIGINT NOT NULL DEFAULT 0;
