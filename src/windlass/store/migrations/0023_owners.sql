-- The server that owns a place: until its lease ends, no other claims work for what runs there. `is_lost` is 1 from
-- the moment that others saw the lease end, and `former` is the owner from whom the place was taken.
CREATE TABLE place_owner (
    place TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until BIGINT NOT NULL,
    is_lost BIGINT NOT NULL DEFAULT 0,
    former TEXT NOT NULL DEFAULT ''
);
-- Housekeeping of the place of a server has a queue of its own, which only its owner claims from.
UPDATE work SET lane = 3 WHERE kind IN ('tidy', 'scale');
UPDATE work SET lane = 3 WHERE kind = 'discard' AND NOT EXISTS (
    SELECT 1 FROM tombstone JOIN queue ON queue.cluster = tombstone.cluster WHERE tombstone.service = substr(work.id, 9)
);
