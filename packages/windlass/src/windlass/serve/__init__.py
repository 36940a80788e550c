"""The HTTP server of the API: its socket, its connections, and their protocols."""
