"""The gateway: a separate program that owns the public ports of services and stores their routes.

A server sends routes to the gateway through `link`. Server and gateway can restart independently. `program`
is the gateway process.
"""
