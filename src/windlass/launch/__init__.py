"""What stands between an engine and a database server on this machine, as an entrypoint does in an image.

Each launcher is a program of its own: it knows nothing of Windlass but the variables of its instance. It
makes the data folder if there is none, sees to user, password and database, and then becomes the server, or
its parent.
"""
