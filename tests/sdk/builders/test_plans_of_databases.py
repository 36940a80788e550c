"""The plan of a build names the databases to create and the variables to set."""

from __future__ import annotations

from windlass.builders.plan import plan_of
from windlass.detect import Tree

FILES = {
    "requirements.txt": b"django\npsycopg2\n",
    "main.py": b"import os\nHOST = os.environ['DB_HOST']\n",
}


def test_the_plan_says_what_to_create_and_to_set_for_a_database():
    recipe = plan_of(Tree(FILES, lambda path, limit: FILES[path][:limit])).recipe
    assert ("databases", "POSTGRESQL: DB_HOST") in [(name, value) for name, value, _ in recipe.values]
    assert recipe.remarks[0] == (
        "It needs a PostgreSQL database. `windlass init` creates one and sets its variables, as do "
        "`windlass database create --name main-db --type POSTGRESQL …` and "
        "`windlass env set 'DB_HOST={{MAIN_DB_HOST}}'`."
    )


def test_the_plan_says_how_to_set_all_variables_without_which_the_code_fails():
    code = b"import os\nMAIL = os.environ['SMTP_HOST'], os.environ['MAIL_FROM']\n"
    files = {"requirements.txt": b"flask\n", "main.py": code}
    recipe = plan_of(Tree(files, lambda path, limit: files[path][:limit])).recipe
    assert recipe.remarks[0] == (
        "The code fails unless SMTP_HOST and MAIL_FROM are set: `windlass env set SMTP_HOST=… MAIL_FROM=…` "
        "before the first deployment, or `windlass secrets set` for secrets."
    )
