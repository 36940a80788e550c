"""Databases without containers: servers that this machine has, as artifacts for an engine of processes."""

from windlass.builders.databases.native import NativeDatabases

__all__ = ["NativeDatabases"]
