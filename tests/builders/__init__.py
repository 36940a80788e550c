"""What comes in from git, and what becomes of it."""
