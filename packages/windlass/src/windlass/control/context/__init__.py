"""Everything that handlers get: the context, with its parts, and the call."""
