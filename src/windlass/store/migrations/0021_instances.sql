-- The instances of the serving deployment that ran, and that were ready, when its engine was last looked at.
ALTER TABLE status ADD COLUMN running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE status ADD COLUMN ready INTEGER NOT NULL DEFAULT 0;
