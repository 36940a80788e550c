"""The gateway: a program of its own that has the public ports of services and keeps their routes.

A server sends it routes through `link`, and neither needs the other to stay up. `program` is the gateway
itself.
"""
