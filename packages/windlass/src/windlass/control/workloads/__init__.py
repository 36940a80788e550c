"""The parts of a workload: its repository or image, its build, ports and credentials."""
