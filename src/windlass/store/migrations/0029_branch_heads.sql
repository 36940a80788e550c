-- The newest commit that was seen on the branch of a service that deploys new commits by itself.
-- Empty: the next one that is found is not new.
CREATE TABLE branch_head (service TEXT PRIMARY KEY, seen TEXT NOT NULL);
