"""The scene of the operator's story: machines, a database with a standby, proxies, clients."""
