"""What is written is kept: the two databases, the work they carry, crashes, secrets at rest."""
