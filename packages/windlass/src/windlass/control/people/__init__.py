"""Callers, members, tokens and sessions, and the organizations that they belong to."""
