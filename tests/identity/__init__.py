"""Who may come in, as whom, how far and for how long: over HTTP."""
