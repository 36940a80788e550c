"""The everyday commands of the command line: `windlass up`, `logs`, `env set …`. They mean the linked
service.

Everything else of the API is a command derived from its declarations; see `commands`.
"""
