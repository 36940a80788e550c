"""The Docker engine: instances are hardened containers, and each environment is a network.

Start here: `engine` (the verbs), `builds.builder` (images from a Dockerfile), and `client` (the API of
Docker).
"""
