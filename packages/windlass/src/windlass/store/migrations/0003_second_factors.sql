-- The second factor of a person: the secret of an authenticator app, sealed. `is_confirmed` is 0 until a code of the app was
-- sent. `used` is the last step of time whose code was used: no code works twice.
CREATE TABLE second_factor (
    person TEXT PRIMARY KEY,
    sealed BYTEA NOT NULL,
    is_confirmed BIGINT NOT NULL,
    used BIGINT NOT NULL,
    created BIGINT NOT NULL
);

-- Codes for a person who has lost the app, as keyed digests. Each works once.
CREATE TABLE recovery_code (
    person TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (person, digest)
);
