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

-- How long each list is, so that nobody has to count. `last` keeps creation times of siblings apart. `edits` changes
-- with each change of the list: whoever has read it knows whether it is still the same.
CREATE TABLE tally (
    parent TEXT NOT NULL,
    family TEXT NOT NULL,
    next BIGINT NOT NULL,
    live BIGINT NOT NULL,
    last BIGINT NOT NULL,
    edits BIGINT NOT NULL DEFAULT 0,
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
-- `serving` is the deployment that serves, `digest` what it was made of, `instances` how many are wanted now. `cluster` is
-- where the service runs: work on it needs the engine of that cluster; it is empty for services that have none.
-- `running` and `ready` count instances of the serving deployment as they were when its engine was last looked at.
CREATE TABLE status (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    deployment TEXT,
    deployments BIGINT NOT NULL,
    deployed_at BIGINT,
    changed BIGINT NOT NULL,
    serving TEXT,
    digest TEXT NOT NULL,
    instances BIGINT NOT NULL,
    cluster TEXT NOT NULL,
    running BIGINT NOT NULL,
    ready BIGINT NOT NULL
);
CREATE INDEX status_serving ON status (serving);

-- `action` is what a deployment does; `sealed`, exactly what it runs.
CREATE TABLE deployment (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    number BIGINT NOT NULL,
    status TEXT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    body BYTEA NOT NULL,
    action TEXT NOT NULL,
    sealed BYTEA
);
CREATE UNIQUE INDEX deployment_service ON deployment (service, number);
-- Few deployments of a service wait or are under way, however many there were.
CREATE INDEX deployment_open ON deployment (service, number) WHERE status IN ('QUEUED', 'BUILDING', 'DEPLOYING');

-- What happened, in the order of commit. Written in the transaction of the change. The columns from `family` on answer what
-- an audit asks: who did it, with which kind of client, and to what. `subject` is what people look for: a variable's events
-- are its service's. `hash` is over the event and the hash of the one before it.
CREATE TABLE event (
    seq BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    at BIGINT NOT NULL,
    body BYTEA NOT NULL,
    family TEXT NOT NULL,
    subject TEXT NOT NULL,
    subject_family TEXT NOT NULL,
    actor TEXT NOT NULL,
    origin TEXT NOT NULL,
    project TEXT NOT NULL,
    environment TEXT NOT NULL,
    hash BYTEA NOT NULL
);
CREATE INDEX event_org ON event (org, seq);
CREATE INDEX event_subject ON event (subject, seq) WHERE subject <> '';
CREATE INDEX event_project ON event (project, seq) WHERE project <> '';
CREATE INDEX event_environment ON event (environment, seq) WHERE environment <> '';

-- All background work. `epoch` fences off a worker that lost its lease. `org` is whose work it is: organizations take
-- turns. What waits is found by lane: the longest-waiting first, or the longest-waiting of each organization. What is held
-- is little, and found by the end of its lease.
CREATE TABLE work (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    due BIGINT NOT NULL,
    lease BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    org TEXT NOT NULL,
    lane BIGINT NOT NULL
);
CREATE INDEX work_waiting ON work (lane, due, id, org) WHERE lease = 0;
CREATE INDEX work_turn ON work (lane, org, due, id) WHERE lease = 0;
CREATE INDEX work_held ON work (lease) WHERE lease > 0;

-- Deployments of a cluster with an engine of its own have a queue of their own: the number in `work.lane`.
CREATE TABLE queue (cluster TEXT PRIMARY KEY, number BIGINT NOT NULL);

-- API tokens by digest; the token itself is kept nowhere.
CREATE TABLE token (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL
);
CREATE UNIQUE INDEX token_id ON token (id);

-- Tokens that are no more, so that whoever still uses one can be named.
CREATE TABLE revoked (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    org TEXT NOT NULL,
    name TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX revoked_id ON revoked (id);
CREATE INDEX revoked_at ON revoked (at);

-- Who signs in as which member.
CREATE TABLE identity (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    org TEXT NOT NULL,
    member TEXT NOT NULL,
    PRIMARY KEY (issuer, subject, org)
);

-- Sessions of browsers, each with the digest of its cookie. Before it is opened: the digest of the code in its link.
CREATE TABLE browser_session (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    holder TEXT NOT NULL,
    holder_name TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    is_open BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX browser_session_of_holder ON browser_session (holder);

-- Answers to POSTs that carried an Idempotency-Key, sealed. `once` is the part that is shown once; it is erased after a
-- minute.
CREATE TABLE idempotency (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    at BIGINT NOT NULL,
    answer BYTEA NOT NULL,
    once BYTEA,
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
INSERT INTO counter (name, value) VALUES ('event', 0), ('delivery', 0), ('host', 0);

-- Facts about the installation, such as the fingerprint of its key.
CREATE TABLE fact (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

-- Host names of services; whoever was first keeps a name. `port` is the port of its service that the name is for (empty: the
-- service itself), and `wish` the name that was wished for it. `number` counts reservations: of two services that had one
-- name, the later one has the greater number.
CREATE TABLE host (
    name TEXT PRIMARY KEY,
    service TEXT NOT NULL,
    port TEXT NOT NULL,
    wish TEXT NOT NULL,
    number BIGINT NOT NULL
);
CREATE INDEX host_service ON host (service);

-- What is on its way to receivers, and what became of it. A lane is what must arrive in order: one service. `address` is
-- where a delivery was sent last, as a keyed digest: it is replayed to no other address. `trace` is that of the request that
-- a delivery goes back to; it is passed on to the receiver.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    lane TEXT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    created BIGINT NOT NULL,
    state TEXT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    body BYTEA NOT NULL,
    story BYTEA NOT NULL,
    address TEXT NOT NULL,
    trace TEXT NOT NULL
);
CREATE INDEX delivery_webhook ON delivery (webhook, number);
CREATE INDEX delivery_waiting ON delivery (webhook, lane, due) WHERE state = 'WAITING';

-- How each receiver does, if not well: since when, how often in a row, and whether it did not even answer.
CREATE TABLE receiver (
    webhook TEXT PRIMARY KEY,
    failing BIGINT NOT NULL,
    fails BIGINT NOT NULL,
    silent BIGINT NOT NULL
);

-- Services that were deleted, for good: an engine, a builder and the data directory erase only what is named here. `cluster`
-- is where data of the service may still be, because its host was away; it is empty once that is erased.
CREATE TABLE tombstone (
    service TEXT PRIMARY KEY,
    at BIGINT NOT NULL,
    cluster TEXT NOT NULL
);

-- Environments and projects that go with the last of their services: who asked, and from where.
CREATE TABLE deletion (
    id TEXT PRIMARY KEY,
    body BYTEA NOT NULL
);

-- Volumes that a deployment has served with. One of them that is not on the engine any more was lost, with what it held:
-- it is not made again before somebody uninstalls the service.
CREATE TABLE volume (
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (service, name)
);

-- The server that owns a place: until its lease ends, no other claims work for what runs there. `is_lost` is 1 from
-- the moment that others saw the lease end, and `former` is the owner from whom the place was taken. `takes`, `host`,
-- `domain` and `port` tell other servers which artifacts its engine takes, and where its gateway is reached. `home` tells
-- two running servers with copies of one data directory, and so with one id, from servers that share it.
CREATE TABLE place_owner (
    place TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    until BIGINT NOT NULL,
    is_lost BIGINT NOT NULL DEFAULT 0,
    former TEXT NOT NULL DEFAULT '',
    takes TEXT NOT NULL,
    host TEXT NOT NULL,
    domain TEXT NOT NULL,
    port BIGINT NOT NULL,
    home TEXT NOT NULL
);

-- The servers of a database that several share, each with the sealing keys that it has: a new key seals nothing before
-- all of them have it.
CREATE TABLE key_holder (
    server TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    keys TEXT NOT NULL,
    until BIGINT NOT NULL
);

-- The newest commit that was seen on the branch of a service that deploys new commits by itself.
-- Empty: the next one that is found is not new.
CREATE TABLE branch_head (service TEXT PRIMARY KEY, seen TEXT NOT NULL);

-- The version of each job that its runs start, and when it is due next; a job that waits for events is never due.
CREATE TABLE timetable (
    job TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    deployment TEXT NOT NULL,
    due BIGINT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX timetable_due ON timetable (due, job);

-- Runs of jobs. `due` is the time for which a run was scheduled, or 0; `awaited_by` the deployment that waits for its
-- end, or empty.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    job TEXT NOT NULL,
    number BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    deployment TEXT NOT NULL,
    cause TEXT NOT NULL,
    status TEXT NOT NULL,
    due BIGINT NOT NULL,
    created BIGINT NOT NULL,
    awaited_by TEXT NOT NULL,
    body BYTEA NOT NULL
);
CREATE UNIQUE INDEX run_number ON run (job, number);
-- A due time has one run, whatever servers do.
CREATE UNIQUE INDEX run_due ON run (job, due) WHERE due > 0;
CREATE INDEX run_open ON run (job) WHERE status IN ('QUEUED', 'RUNNING');
CREATE INDEX run_awaited ON run (awaited_by, number) WHERE awaited_by <> '';

-- The number of the last run of each job: purged runs leave their numbers behind.
CREATE TABLE run_count (job TEXT PRIMARY KEY, runs BIGINT NOT NULL);

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

-- Plans of deployments of Terraform services: their text and their file, sealed.
CREATE TABLE terraform_plan (
    deployment TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    created BIGINT NOT NULL,
    added BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    destroyed BIGINT NOT NULL,
    sealed BYTEA NOT NULL
);
CREATE INDEX terraform_plan_service ON terraform_plan (service, created);

-- What the last output file of each job said, sealed.
CREATE TABLE job_output (
    job TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    sealed BYTEA NOT NULL
);
