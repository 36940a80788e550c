"""`python -m windlass`, and the `windlass` command."""

from windlass.main import main

if __name__ == "__main__":
    main()
