"""Speaks with container registries, through the guarded way out: their images, tags, digests and logins."""
