"""Handlers that read and change resources, with dispatch, permissions and idempotency."""
