"""Environment variables: stored, inherited, built in, and resolved for running services."""
