"""Building blocks of commands: option sections, tables, and errors that end a command."""
