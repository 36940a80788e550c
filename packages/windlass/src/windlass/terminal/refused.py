"""The refusal of a command on the machine."""


class CommandRefused(Exception):
    """A command did nothing and changed nothing. The message says why, and what to do."""
