"""The served document against the server: schemathesis tries every operation, with all its checks.

A real server on a real port (`serving`), a world with one of everything in it (`town`), what no schema can
say (`mending`, `rules`), and the run itself (`trial`).
"""
