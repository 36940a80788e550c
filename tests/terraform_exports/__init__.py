"""Environments as Terraform files."""
