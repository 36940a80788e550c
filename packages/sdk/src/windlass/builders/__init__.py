"""The interface of builders.

Start here: `builder` (an order, and what comes of it), `build_settings`, and `instructions` (a Dockerfile as
it is read).
"""
