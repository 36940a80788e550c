"""The tables, one per module: the row type, the SQL statements, and one class each for reading and
changing."""
