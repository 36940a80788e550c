"""What an attacker tries. Attempts marked `hostile` run in `make test-hostile` only."""
