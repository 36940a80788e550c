-- The same text runs on SQLite and PostgreSQL: TEXT, BIGINT and BYTEA mean what is wanted on both.
-- Times are milliseconds since the epoch.

-- Every resource, as the JSON document that the API serves. `pos` numbers siblings in the order of creation.
CREATE TABLE resource (
    id TEXT PRIMARY KEY,
    family TEXT NOT NULL,
    org TEXT NOT NULL,
    parent TEXT NOT NULL,
    pos BIGINT NOT NULL,
    name TEXT,
    created BIGINT NOT NULL,
    tag TEXT NOT NULL,
    body BYTEA NOT NULL,
    sealed BYTEA
);
CREATE UNIQUE INDEX resource_place ON resource (parent, family, pos);
CREATE UNIQUE INDEX resource_name ON resource (parent, family, name);
CREATE INDEX resource_org ON resource (org, family);

-- How long each list is, so that nobody has to count. `last` keeps creation times of siblings apart.
CREATE TABLE tally (
    parent TEXT NOT NULL,
    family TEXT NOT NULL,
    next BIGINT NOT NULL,
    live BIGINT NOT NULL,
    last BIGINT NOT NULL,
    PRIMARY KEY (parent, family)
);

-- Where places of a list have become empty, counted in blocks of rising size, so that any page is found at once.
CREATE TABLE hole (
    parent TEXT NOT NULL,
    family TEXT NOT NULL,
    level BIGINT NOT NULL,
    block BIGINT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (parent, family, level, block)
);

-- Who refers to whom: an environment to its cluster, an alias to its variable.
CREATE TABLE link (
    source TEXT NOT NULL,
    field TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (source, field)
);
CREATE INDEX link_target ON link (target, field);

-- How each service is. A table of its own, because it changes while the resource does not.
CREATE TABLE status (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    deployment TEXT,
    deployments BIGINT NOT NULL,
    deployed_at BIGINT,
    changed BIGINT NOT NULL
);

CREATE TABLE deployment (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    number BIGINT NOT NULL,
    status TEXT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX deployment_service ON deployment (service, number);

-- What happened, in the order of commit. Written in the transaction of the change.
CREATE TABLE event (
    seq BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX event_org ON event (org, seq);

-- All background work. `epoch` fences off a worker that lost its lease.
CREATE TABLE work (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    due BIGINT NOT NULL,
    lease BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    attempts BIGINT NOT NULL
);
CREATE INDEX work_due ON work (due);

-- API tokens by digest; the token itself is kept nowhere.
CREATE TABLE token (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL
);
CREATE UNIQUE INDEX token_id ON token (id);

-- Who signs in as which member.
CREATE TABLE identity (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    org TEXT NOT NULL,
    member TEXT NOT NULL,
    PRIMARY KEY (issuer, subject, org)
);

-- Answers to POSTs that carried an Idempotency-Key, sealed.
CREATE TABLE idempotency (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    at BIGINT NOT NULL,
    answer BYTEA NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

-- Requests already granted in the current window.
CREATE TABLE budget (
    subject TEXT PRIMARY KEY,
    opened BIGINT NOT NULL,
    used BIGINT NOT NULL
);

CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counter (name, value) VALUES ('event', 0);

-- Facts about the installation, such as the fingerprint of its key.
CREATE TABLE fact (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);
