-- The cluster where data of a deleted service may still be, because its host was away. Empty once that is erased.
ALTER TABLE tombstone ADD COLUMN cluster TEXT NOT NULL DEFAULT '';
