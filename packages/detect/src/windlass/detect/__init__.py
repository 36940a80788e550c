"""Detects how an application is built and started: derives a recipe from a tree of files, without I/O."""

from windlass.detect.detect import advice_for, detect, language_named
from windlass.detect.hints import start_by_author
from windlass.detect.language import Language
from windlass.detect.languages import languages
from windlass.detect.languages.node import node_version
from windlass.detect.node_frameworks import is_built
from windlass.detect.recipe import Candidate, ProcessType, Recipe
from windlass.detect.settings import RecipeSettings, apply_settings
from windlass.detect.toolchain import Toolchain
from windlass.detect.tree import Tree
from windlass.detect.version_ranges import is_in_range, plain_version

__all__ = [
    "Candidate",
    "Language",
    "ProcessType",
    "Recipe",
    "RecipeSettings",
    "Toolchain",
    "Tree",
    "advice_for",
    "apply_settings",
    "detect",
    "is_built",
    "is_in_range",
    "language_named",
    "languages",
    "node_version",
    "plain_version",
    "start_by_author",
]
