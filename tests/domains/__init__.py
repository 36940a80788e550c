"""Domains of users: records, proofs, certificates."""
