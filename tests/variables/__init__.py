"""The environment of a service: variables, files, connections of databases."""
