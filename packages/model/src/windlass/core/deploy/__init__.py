"""Decisions about deployments, and the values that they are made of."""
