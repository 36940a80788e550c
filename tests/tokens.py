"""Tokens that the servers of tests know."""

ADMIN = "admin-token-of-the-tests-0123456789abcdef"
