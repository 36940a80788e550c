"""Background work, independent of API requests."""
