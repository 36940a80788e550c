-- Volumes that a deployment has served with. One of them that is not on the engine any more was lost, with what it held:
-- it is not made again before somebody uninstalls the service.
CREATE TABLE volume (
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (service, name)
);
