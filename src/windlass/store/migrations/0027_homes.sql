-- Tells two running servers with copies of one data directory, and so with one id, from servers that share it.
ALTER TABLE place_owner ADD COLUMN home TEXT NOT NULL DEFAULT '';
