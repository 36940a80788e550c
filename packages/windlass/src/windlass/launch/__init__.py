"""Launchers of database servers on this machine, for an engine without images: each is what an entrypoint is
in an image.

A launcher is a program of its own: it knows nothing of Windlass but the variables of its instance. It makes
the data folder if there is none, sets user, password and database, and then becomes the server, or its
parent.
"""
