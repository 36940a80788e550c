"""Keeps programs of one machine apart, without containers, as far as its kernel allows.

`calls`, `mounts`, `landlock`, `inside` and `launcher` are of the standard library alone: they run in a small
process of their own, which everything is started from (`launcher`). `cell` and `parts` are for those who ask
for it.
"""
