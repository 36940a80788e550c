"""Records of deployments, events, deliveries and names, each written in the transaction of its caller."""
