"""Images built from a Dockerfile by a Docker engine."""

from windlass.docker.builds.builder import DockerBuilder

__all__ = ["DockerBuilder"]
