"""Pure decisions about deployments, and the values that they use."""
