"""Isolates programs of one machine without containers, as far as its kernel allows.

`calls`, `mounts`, `landlock`, `inside` and `launcher` use the standard library alone: they run in a small
process of their own, the launcher, which starts all programs. `cell` and `launching` are for the server,
which asks the launcher.
"""
