"""The everyday commands, such as `windlass up`, `logs` and `env set …`. By default, they act on the linked
service.

All other commands are derived from the declarations of the API; see `commands`.
"""
