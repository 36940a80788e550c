"""The parts of a service: its kind, its build, its ports, its names and its credentials."""
