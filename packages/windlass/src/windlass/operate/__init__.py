"""Commands for operators on the server's machine. They cannot be called over HTTP."""
