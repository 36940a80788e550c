"""Applications that generators of frameworks make, deployed on a real Windlass: `make test-frameworks`."""
