"""Terraform and OpenTofu: the programs of this machine, and what a module declares.

Start here: `programs` (which are installed), `hcl` (variables of a module), and
`windlass.launch.terraform` (a run).
"""
