"""Callers, members, tokens, and the organizations that they belong to."""
