"""A request becomes a change: its context, its handler, the resources and records that it writes."""
