"""The store: the two databases, the work they carry, crashes, secrets at rest."""
