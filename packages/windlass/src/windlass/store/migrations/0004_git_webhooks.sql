-- Webhooks of git servers: one address for each repository of an organization. `sealed` is the secret of its signatures.
CREATE TABLE git_webhook (
    id TEXT PRIMARY KEY,
    org TEXT NOT NULL,
    repository TEXT NOT NULL,
    provider TEXT NOT NULL,
    created BIGINT NOT NULL,
    sealed BYTEA NOT NULL
);
CREATE UNIQUE INDEX git_webhook_repository ON git_webhook (org, repository);

-- What came to a webhook (`service` is empty), and what it meant for each service. Pushes that were found by looking at the
-- branch have no webhook.
CREATE TABLE git_push (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    service TEXT NOT NULL,
    delivery TEXT NOT NULL,
    arrived BIGINT NOT NULL,
    event TEXT NOT NULL,
    branch TEXT NOT NULL,
    commit_id TEXT NOT NULL,
    result TEXT NOT NULL,
    note TEXT NOT NULL,
    times BIGINT NOT NULL
);
CREATE INDEX git_push_webhook ON git_push (webhook, service, arrived);
CREATE INDEX git_push_service ON git_push (service, arrived);
