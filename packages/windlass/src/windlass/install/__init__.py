"""An installation, put together from its settings: database, engine, key, and the loops that run."""
