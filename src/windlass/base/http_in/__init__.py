"""What both public ports share: limits, the reading of heads and the table of connections."""
