"""The interface of engines.

Start here: `engine` (the verbs), `workload` (what is run), and `rollout` (what an engine does that has no
orchestrator: probes, copies, listeners).
"""
