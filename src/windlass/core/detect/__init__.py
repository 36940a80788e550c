"""Detection of applications: from a tree of files to a recipe, without I/O."""

from windlass.core.detect.detect import advice_for, detect, language_named
from windlass.core.detect.hints import start_by_author
from windlass.core.detect.language import Language
from windlass.core.detect.languages import languages
from windlass.core.detect.languages.node import node_version
from windlass.core.detect.node_frameworks import is_built
from windlass.core.detect.recipe import Candidate, ProcessType, Recipe
from windlass.core.detect.settings import RecipeSettings, apply_settings
from windlass.core.detect.toolchain import Toolchain
from windlass.core.detect.tree import Tree
from windlass.core.detect.version_ranges import is_in_range, plain_version

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
