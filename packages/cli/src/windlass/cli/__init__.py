"""The command line: commands are derived from the declarations of the API and call the API over HTTP only."""
