"""The published client of the full interface, against Windlass."""
