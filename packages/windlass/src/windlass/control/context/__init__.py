"""The context and the call, which every handler gets."""
