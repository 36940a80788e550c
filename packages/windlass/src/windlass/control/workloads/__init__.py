"""The parts of a workload: its repository, its build and its credentials."""
