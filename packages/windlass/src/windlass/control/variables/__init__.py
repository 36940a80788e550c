"""Environment variables: declared, inherited, injected, and resolved for a run."""
