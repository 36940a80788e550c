"""Helm charts as a kind of service.

Start with `families` (the API shapes), `kind` (the behaviour of the services) and `windlass.launch.helm` (a
run).
"""
