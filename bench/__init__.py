"""Benchmarks against the physical limit: what the same machine does when it does only what must be done.

`python -m bench` runs them; README.md says what is compared with what. They print, and judge no build.
"""
