"""Vocabularies and other data of the product: events, audit, regions, variables, timetables, names."""
