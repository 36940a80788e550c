"""Reads image names, tags and digests from container registries, with optional login, through the guarded
HTTP client."""
