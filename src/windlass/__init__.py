"""Windlass: a self-hosted control plane for infrastructure."""

__version__ = "0.1.0"
