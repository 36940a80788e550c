-- The place of each deployment stage in its environment, from 1. `takes` is the precedence of the kinds whose new services
-- are placed in the stage; negative for a stage of a user. An environment of an earlier version has no rows until its stages are
-- needed.
CREATE TABLE deployment_stage (
    id TEXT PRIMARY KEY,
    environment TEXT NOT NULL,
    place BIGINT NOT NULL,
    takes BIGINT NOT NULL
);
CREATE INDEX deployment_stage_environment ON deployment_stage (environment, place);

-- The stage of each service. With `is_skipped`, deployments of the whole environment leave the service out.
CREATE TABLE staged_service (
    service TEXT PRIMARY KEY,
    environment TEXT NOT NULL,
    stage TEXT NOT NULL,
    is_skipped BIGINT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL
);
CREATE INDEX staged_service_stage ON staged_service (stage);
CREATE INDEX staged_service_environment ON staged_service (environment);
