"""The API as commands: derived from the same declarations, and speaking only HTTP to it."""
