"""Code that both public ports share: limits, parsing of request heads, and the table of connections."""
