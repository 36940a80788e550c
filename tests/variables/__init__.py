"""What a service runs with: variables, files, databases' connections."""
