"""Tokens of other issuers, and of our own: every rule of verifying them."""
