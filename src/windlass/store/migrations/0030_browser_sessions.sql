-- Sessions of browsers, each with the digest of its cookie. Before it is opened: the digest of the code in its link.
CREATE TABLE browser_session (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    holder TEXT NOT NULL,
    holder_name TEXT NOT NULL,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    is_open BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX browser_session_of_holder ON browser_session (holder);
