-- Environments and projects that go with the last of their services: who asked, and from where.
CREATE TABLE deletion (
    id TEXT PRIMARY KEY,
    body BYTEA NOT NULL
);
