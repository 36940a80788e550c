-- What is on its way to receivers, and what became of it. A lane is what must arrive in order: one service.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    lane TEXT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT NOT NULL,
    created BIGINT NOT NULL,
    state TEXT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    body BYTEA NOT NULL,
    story BYTEA NOT NULL
);
CREATE INDEX delivery_webhook ON delivery (webhook, number);
CREATE INDEX delivery_waiting ON delivery (webhook, lane, due) WHERE state = 'WAITING';
INSERT INTO counter (name, value) VALUES ('delivery', 0);

-- How each receiver does, if not well: since when, how often in a row, and whether it did not even answer.
CREATE TABLE receiver (
    webhook TEXT PRIMARY KEY,
    failing BIGINT NOT NULL,
    fails BIGINT NOT NULL,
    silent BIGINT NOT NULL
);
