"""The HTTP API: an ASGI application with its requests, responses, limits and metrics."""
