"""Isolates programs on one machine without containers, as far as the kernel allows.

The launcher is a small process that starts all programs. Its modules, such as `calls`, `mounts`, `landlock`
and `cell_entry`, use the standard library only. `launcher_client` is the server's side.
"""
