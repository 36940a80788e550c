"""The application that `windlass demo` deploys, as a repository that needs no network.

Its address is a name that, by the rules of the internet, nobody can ever own. Who fetches code and meets
this address takes the repository that is made here instead; no other address on the machine is opened by it.
"""

from windlass.demo.repository import BRANCH, URL, repository

__all__ = ["BRANCH", "URL", "repository"]
