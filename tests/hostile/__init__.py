"""Attacks. Those of full size are marked `long` and run in `make test-long` only."""
