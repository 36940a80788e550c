"""Isolates programs of one machine without containers, as far as its kernel allows.

The launcher is a small process that starts all programs. Its modules, such as `calls`, `mounts`, `landlock`
and `cell_entry`, use the standard library alone. `launcher_client` is the side of the server.
"""
