-- Deployments of a cluster with an engine of its own have a queue of their own: the number in `work.lane`.
CREATE TABLE queue (cluster TEXT PRIMARY KEY, number BIGINT NOT NULL);
