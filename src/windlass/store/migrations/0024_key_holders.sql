-- The servers of a database that several share, each with the sealing keys that it has: a new key seals nothing before
-- all of them have it.
CREATE TABLE key_holder (
    server TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    keys TEXT NOT NULL,
    until BIGINT NOT NULL
);
