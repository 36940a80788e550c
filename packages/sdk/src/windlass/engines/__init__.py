"""The interface of engines.

Start here: `engine` (the interface), `workload` (the description of what to run), and `rollout` (shared code
of engines without an orchestrator: probes, copies, listeners).
"""
