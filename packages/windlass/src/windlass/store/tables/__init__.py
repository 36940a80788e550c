"""One file per table: its row, its statements, and the two classes that read and change it."""
