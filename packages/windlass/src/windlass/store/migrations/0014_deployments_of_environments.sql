-- The history of an environment is read from one index, however many services and deployments it has.
ALTER TABLE deployment ADD COLUMN environment TEXT NOT NULL DEFAULT '';
UPDATE deployment SET environment = (SELECT parent FROM resource WHERE resource.id = deployment.service)
WHERE EXISTS (SELECT 1 FROM resource WHERE resource.id = deployment.service);
CREATE INDEX deployment_environment ON deployment (environment, created, id);
