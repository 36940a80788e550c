"""The application that `windlass demo` deploys, in a repository that needs no network.

The host name in its address can never be registered. `sources.bundled` fetches the generated repository for
this address only. No other repository on the machine becomes accessible through it.
"""

from windlass.demo.repository import BRANCH, URL, repository

__all__ = ["BRANCH", "URL", "repository"]
