"""Writes TXT records into zones of the operator, at the provider that serves them. Each provider is one file,
named in `names`."""
