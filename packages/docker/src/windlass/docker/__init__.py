"""The Docker engine: runs instances as hardened containers, and gives each environment a network.

Start here: `engine` (the interface of engines), `builds.builder` (images from a Dockerfile), and `client`
(the Docker API).
"""
