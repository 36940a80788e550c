"""Engine, builder, git and router without a world outside: for tests and benchmarks."""
