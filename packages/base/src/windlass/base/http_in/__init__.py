"""Code for both the API port and the gateway: limits, parsers of requests, and tables of connections."""
