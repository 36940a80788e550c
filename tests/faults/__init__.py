"""Faults from git to running: killed, paused, starved, lied to."""
