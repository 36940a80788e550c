"""Images built from a Dockerfile by a Docker engine."""
