"""The command line of the API: every operation reached, and what people do with it."""
