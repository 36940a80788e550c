"""Builds an installation from its settings: database, engine, key, and background loops."""
