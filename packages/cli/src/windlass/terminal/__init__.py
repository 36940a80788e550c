"""Commands in a terminal: sections of options, tables, and how a command ends."""
