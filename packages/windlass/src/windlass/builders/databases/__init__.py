"""Databases without containers: database servers of this machine, as artifacts for the process engine."""

from windlass.builders.databases.native import NativeDatabases

__all__ = ["NativeDatabases"]
