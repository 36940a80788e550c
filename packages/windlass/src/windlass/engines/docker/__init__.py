"""The Docker engine: instances are hardened containers, and each environment is a network."""

from windlass.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]
