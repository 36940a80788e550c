"""Reads images, tags and digests from container registries through the guarded HTTP client, and logs in."""
