-- The DNS records that orders (`owner`) have put into zones of the operator. A row is there before its record is, and until it
-- is removed.
CREATE TABLE challenge_record (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    owner TEXT NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (name, value)
);
CREATE INDEX challenge_record_owner ON challenge_record (owner);
