"""How a command on the machine says no."""


class CommandRefused(Exception):
    """It was not done, and nothing was changed; the message says why, and what to do."""
