"""Identity over HTTP: credentials, roles, limits and expiry."""
