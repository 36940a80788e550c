"""Declarations of resource families: fields, actions and traits, and the registry of all operations."""
