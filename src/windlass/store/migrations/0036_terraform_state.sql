-- Versions of the state of Terraform services, sealed, and the lock that a run holds.
CREATE TABLE terraform_state (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    number BIGINT NOT NULL,
    created BIGINT NOT NULL,
    deployment TEXT NOT NULL,
    restored BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    digest TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    shown BYTEA
);
CREATE UNIQUE INDEX terraform_state_number ON terraform_state (service, number);

CREATE TABLE terraform_lock (
    service TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    deployment TEXT NOT NULL,
    operation TEXT NOT NULL,
    owner TEXT NOT NULL,
    created BIGINT NOT NULL,
    info BYTEA NOT NULL
);
