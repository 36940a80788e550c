"""Brings services to their wanted state, one step at a time."""
