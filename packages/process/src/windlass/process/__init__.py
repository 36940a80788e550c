"""The process engine, which needs only Python: runs processes of this machine and builds their artifacts.

Start with `engine` (the engine's interface), `supervisor` (one process and its end), `builds.builder` (code
and dependencies) and `databases` (the database servers of this machine).
"""
