"""Families made up for tests: what a declaration can say, and what follows from it."""
