"""All rows: trees of files, and the recipe that each must give."""

from __future__ import annotations

from tests.detect import (
    hint_trees,
    node_trees,
    other_trees,
    program_trees,
    python_folder_trees,
    python_run_trees,
    python_trees,
    site_trees,
)

ROWS = [
    *python_trees.ROWS,
    *python_run_trees.ROWS,
    *python_folder_trees.ROWS,
    *node_trees.ROWS,
    *other_trees.ROWS,
    *program_trees.ROWS,
    *hint_trees.ROWS,
    *site_trees.ROWS,
]
