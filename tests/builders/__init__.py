"""Code from git, and the builds made of it."""
