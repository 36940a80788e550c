"""Advanced settings: one table of all keys, and everything that is derived from it."""
