"""Code that engines share which start copies of a workload one by one."""
