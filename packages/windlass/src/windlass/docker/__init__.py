"""A client of the Docker Engine API: one socket, our own failures, streams as they arrive."""

from windlass.docker.client import Docker
from windlass.docker.failures import Away, EngineRefused

__all__ = ["Away", "Docker", "EngineRefused"]
