-- Passkeys (WebAuthn) of people. `credential` is the id that the authenticator chose, `public_key` its public key with that
-- id, as registered. `host` is the host to which the authenticator has bound it. `counter` is the last one that it sent: a
-- copy of the authenticator sends one that was used before.
CREATE TABLE passkey (
    id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    credential TEXT NOT NULL,
    host TEXT NOT NULL,
    public_key BYTEA NOT NULL,
    counter BIGINT NOT NULL,
    name TEXT NOT NULL,
    created BIGINT NOT NULL,
    used BIGINT NOT NULL
);
CREATE UNIQUE INDEX passkey_credential ON passkey (credential);
CREATE INDEX passkey_person ON passkey (person);
