-- Webhooks of container registries. `sealed` is the secret with which registries prove who they are.
CREATE TABLE registry_webhook (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    registry TEXT NOT NULL,
    created BIGINT NOT NULL,
    sealed BYTEA NOT NULL
);
CREATE UNIQUE INDEX registry_webhook_registry ON registry_webhook (registry);

-- What came to a webhook (`service` is empty), and what it meant for each service.
CREATE TABLE image_push (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    service TEXT NOT NULL,
    delivery TEXT NOT NULL,
    arrived BIGINT NOT NULL,
    sender TEXT NOT NULL,
    image TEXT NOT NULL,
    tag TEXT NOT NULL,
    digest TEXT NOT NULL,
    result TEXT NOT NULL,
    note TEXT NOT NULL,
    times BIGINT NOT NULL
);
CREATE INDEX image_push_webhook ON image_push (webhook, service, arrived);
