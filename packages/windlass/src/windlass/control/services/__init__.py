"""Actions on services and environments, and their statuses and histories."""
