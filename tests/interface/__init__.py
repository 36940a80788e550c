"""The coverage of the full interface: `make coverage`."""
