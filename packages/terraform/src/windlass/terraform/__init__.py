"""Terraform and OpenTofu as a kind of service.

Start here: `families` (the resources), `kind` (deploying them), and `windlass.launch.terraform` (a run).
"""
