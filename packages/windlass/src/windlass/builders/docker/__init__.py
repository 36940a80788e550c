"""Images built from a Dockerfile by a Docker engine."""

from windlass.builders.docker.builder import DockerBuilder

__all__ = ["DockerBuilder"]
