"""A client of the Docker Engine API: one socket, our own failures, streams as they arrive."""

from windlass.docker.client import Docker, EngineAnswer
from windlass.docker.failures import Away, EngineRefused, WrongEngine

__all__ = ["Away", "Docker", "EngineAnswer", "EngineRefused", "WrongEngine"]
