"""Shared code of engines that start copies of a workload one by one."""
