"""What an operator does on the machine itself. Nothing here is reached over HTTP."""
