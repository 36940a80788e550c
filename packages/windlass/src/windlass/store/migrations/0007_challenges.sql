-- The type of the challenge by which an open order proves its name, such as http-01; empty while none is answered.
ALTER TABLE acme_order ADD COLUMN challenge TEXT NOT NULL DEFAULT '';
UPDATE acme_order SET challenge = 'http-01' WHERE path <> '';
