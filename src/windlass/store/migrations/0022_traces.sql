-- The trace of the request that a delivery goes back to, which is passed on to its receiver.
ALTER TABLE delivery ADD COLUMN trace TEXT NOT NULL DEFAULT '';
