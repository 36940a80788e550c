"""Terraform and OpenTofu as a kind of service.

Start here: `families` (what clients send and read), `kind` (what becomes of it), and
`windlass.launch.terraform` (a run).
"""
