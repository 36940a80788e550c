-- The certificate of each domain, with its private key, sealed. `origin` says where it is from: ACME. `renew` is when the next
-- one is ordered.
CREATE TABLE certificate (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    chain TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    fingerprint TEXT NOT NULL,
    since BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    renew BIGINT NOT NULL,
    origin TEXT NOT NULL
);
CREATE INDEX certificate_service ON certificate (service);

-- The order that each domain has at an authority, with the private key of the certificate to come, sealed. `url` is empty
-- while none is open; the row then counts the failures since the last certificate. `path` and `answer` are the challenge
-- that every gateway answers while the order is open.
CREATE TABLE acme_order (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    authority TEXT NOT NULL,
    url TEXT NOT NULL,
    sealed BYTEA,
    path TEXT NOT NULL,
    answer TEXT NOT NULL,
    since BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    message TEXT NOT NULL,
    due BIGINT NOT NULL
);
CREATE INDEX acme_order_service ON acme_order (service);
