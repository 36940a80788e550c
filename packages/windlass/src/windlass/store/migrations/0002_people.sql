-- People who sign in with an e-mail address and a password of this installation. `address` is the e-mail address in the
-- form in which addresses are compared, `password` the Argon2id hash with its parameters, `changed` when it was chosen.
CREATE TABLE person (
    id TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    password TEXT NOT NULL,
    created BIGINT NOT NULL,
    changed BIGINT NOT NULL
);
CREATE UNIQUE INDEX person_address ON person (address);

-- Links with which people choose a password, by the digest of their code. `subject` is what a link is for: an invitation, or
-- a person who has forgotten the password.
CREATE TABLE password_link (
    digest TEXT PRIMARY KEY,
    purpose TEXT NOT NULL,
    subject TEXT NOT NULL,
    created BIGINT NOT NULL,
    ends BIGINT NOT NULL
);
CREATE INDEX password_link_subject ON password_link (subject);
