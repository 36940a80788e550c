"""The application that `windlass demo` deploys, as a repository that needs no network.

Its address is a name that, by the rules of the internet, can never be registered. `builders.git` fetches the
repository that is made here instead of this address; no other address of the machine becomes reachable by it.
"""

from windlass.demo.repository import BRANCH, URL, repository

__all__ = ["BRANCH", "URL", "repository"]
