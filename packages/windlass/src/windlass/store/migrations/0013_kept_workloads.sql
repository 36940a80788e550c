-- Few deployments of a service keep their workload, however many there were.
CREATE INDEX deployment_workload ON deployment (service, number) WHERE sealed IS NOT NULL;
