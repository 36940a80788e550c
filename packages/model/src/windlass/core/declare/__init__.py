"""The language of families: fields, shapes, actions, traits, and the registry of all operations."""
