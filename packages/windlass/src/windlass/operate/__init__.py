"""Commands for operators on the machine itself. Nothing here is reached over HTTP."""
