"""Tests that walk the registry: whatever a family declares is tested here without a line about it."""
