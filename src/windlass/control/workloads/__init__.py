"""What a service is made of: its kind, its build, its ports, its names and its credentials."""
