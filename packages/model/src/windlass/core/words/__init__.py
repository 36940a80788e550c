"""The words of the product, as data: events, audit, regions, databases, variables, host names."""
