"""The interface of builders.

Start here: `builder` (the interface, and the order for a build), `build_settings`, and `instructions` (parsed
Dockerfile instructions).
"""
