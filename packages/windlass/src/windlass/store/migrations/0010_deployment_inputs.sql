-- Documents of services, variables and secrets as deployments used them, each once: a tag changes with every change of a
-- resource. `holder` is the service, environment, project or organization with which a version is removed. The deletion of a
-- secret erases `sealed` of all its versions.
CREATE TABLE resource_version (
    id TEXT NOT NULL,
    tag TEXT NOT NULL,
    holder TEXT NOT NULL,
    org TEXT NOT NULL,
    family TEXT NOT NULL,
    body BYTEA NOT NULL,
    sealed BYTEA,
    PRIMARY KEY (id, tag)
);
CREATE INDEX resource_version_holder ON resource_version (holder);

-- The settings and variables with which each deployment ran: ids and tags of resource versions.
CREATE TABLE deployment_inputs (
    deployment TEXT PRIMARY KEY,
    service TEXT NOT NULL,
    body BYTEA NOT NULL
);
CREATE INDEX deployment_inputs_service ON deployment_inputs (service);
