"""The files of the console for Helm services: the page of a new one, and its texts."""
