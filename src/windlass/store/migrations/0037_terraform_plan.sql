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
