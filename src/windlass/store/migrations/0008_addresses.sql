-- Where a delivery was sent last, as a keyed digest: it is replayed to no other address.
ALTER TABLE delivery ADD COLUMN address TEXT NOT NULL DEFAULT '';
-- The part of an answer that is shown once, sealed. It is erased after a minute.
ALTER TABLE idempotency ADD COLUMN once BYTEA;
