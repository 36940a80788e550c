"""What may go wrong from git to running, on purpose: killed, paused, starved, lied to."""
