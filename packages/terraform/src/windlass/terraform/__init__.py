"""Terraform and OpenTofu as a kind of service.

Start with `families` (the API shapes), `kind` (the behaviour of the services) and `windlass.launch.terraform`
(a run).
"""
