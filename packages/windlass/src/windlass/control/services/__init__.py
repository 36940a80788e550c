"""Actions on services and environments, and how these are shown."""
