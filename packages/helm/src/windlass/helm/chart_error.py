"""The reason why a chart cannot be used."""


class ChartError(Exception):
    """Raised if a chart or its repository cannot be read. The message says what to do."""
