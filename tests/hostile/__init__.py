"""Attacks. Those of full size are nightly."""
