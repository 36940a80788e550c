"""The context and the call that every request handler receives."""
