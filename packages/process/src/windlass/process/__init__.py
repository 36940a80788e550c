"""The engine that needs nothing but Python: processes of this machine, and builds for them.

Start here: `engine` (the verbs), `supervisor` (a process and its end), `builds.builder` (code and
dependencies), and `databases` (the database servers of this machine).
"""
