"""Rules that the code and the tests keep, read from their sources: part of `make check`."""
