"""The console in a real browser, against a whole Windlass."""
