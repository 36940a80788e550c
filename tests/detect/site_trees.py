"""Trees of static sites that a generator makes, and of applications that only have a manual made so."""

from __future__ import annotations

from tests.detect.trees import Row, package

_PAGE = {"docs/index.md": "# Handbook"}

ROWS = [
    Row(
        "MkDocs",
        {"mkdocs.yml": "site_name: Handbook\n", **_PAGE},
        {
            "language": "Python",
            "framework": "MkDocs",
            "added_packages": ["mkdocs"],
            "build": "mkdocs build",
            "static_folder": "site",
            "start": "",
            "port": 0,
        },
    ),
    Row(
        "MkDocs with its theme, in a folder of its own choice",
        {"mkdocs.yml": "site_dir: ./out\ntheme:\n  name: material\n", **_PAGE},
        {"added_packages": ["mkdocs-material"], "static_folder": "out"},
    ),
    Row(
        "MkDocs that the dependencies name",
        {"mkdocs.yml": "site_name: Handbook\n", "requirements.txt": "mkdocs==1.6\n", **_PAGE},
        {
            "framework": "MkDocs",
            "added_packages": [],
            "install": "pip install -r requirements.txt",
            "static_folder": "site",
        },
    ),
    Row(
        "Hugo",
        {"hugo.toml": "title='x'\n", "content/_index.md": "#", "layouts/index.html": "{{ .Title }}"},
        {
            "framework": "Hugo",
            "added_packages": ["hugo"],
            "build": "hugo --minify",
            "static_folder": "public",
            "candidates": [],
        },
    ),
    *(
        Row(
            f"Hugo by {file}",
            {
                file: "baseURL: https://shop.example/\n",
                "content/posts/a.md": "#",
                "archetypes/default.md": "",
                **more,
            },
            {"framework": "Hugo", "build": "hugo --minify", "static_folder": "public"},
            {"static_folder": f"{file} is there."},
        )
        for file, more in (
            ("hugo.yml", {}),
            ("config.toml", {}),
            ("config.yaml", {"go.mod": "module shop\n\ngo 1.22\n\nrequire github.com/x/theme v1.0.0\n"}),
            ("config/_default/hugo.toml", {}),
            ("config/_default/config.yaml", {"go.mod": "module shop\n"}),
        )
    ),
    Row(
        "Hugo with modules",
        {"hugo.toml": "title = 'x'\n", "go.mod": "module shop\n\ngo 1.22\n"},
        {"framework": "Hugo", "system_packages": ["golang", "git"]},
    ),
    Row(
        "a file of settings beside no site",
        {"config.toml": "port = 80\n", "package.json": '{"scripts": {"start": "node a.js"}}', "a.js": ""},
        {"language": "Node", "framework": ""},
    ),
    Row(
        "Pelican",
        {"pelicanconf.py": "AUTHOR = 'x'\n", "requirements.txt": "pelican[markdown]\n"},
        {"framework": "Pelican", "added_packages": [], "static_folder": "output"},
    ),
    Row(
        "Jekyll",
        {"Gemfile": 'gem "jekyll", "~> 4.3"\n', "_config.yml": "title: x\n"},
        {
            "language": "Ruby",
            "framework": "Jekyll",
            "install": "bundle install",
            "build": "env JEKYLL_ENV=production bundle exec jekyll build",
            "static_folder": "_site",
            "start": "",
        },
    ),
    Row(
        "Jekyll behind a server of its own",
        {"Gemfile": 'gem "jekyll"\ngem "puma"\n', "config.ru": "run X\n"},
        {"framework": "", "start": "bundle exec puma -p ${PORT:-3000}", "static_folder": ""},
    ),
    Row(
        "an application of Flask with a manual",
        {"mkdocs.yml": "site_name: x\n", "requirements.txt": "flask\n", "app.py": "app = Flask(__name__)\n"},
        {"framework": "Flask", "static_folder": ""},
    ),
    Row(
        "an application of Node with a manual",
        {"mkdocs.yml": "site_name: x\n", "package.json": package(scripts={"start": "node a.js"})},
        {"language": "Node", "static_folder": "", "start": "npm run start"},
    ),
    Row(
        "Hugo with tools for its authors",
        {
            "hugo.toml": "title = 'x'\n",
            "content/_index.md": "#",
            "material/cut/scripts/package.json": package("sharp"),
            ".claude/package.json": package("sharp"),
            "tools/requirements.txt": "requests\n",
        },
        {"framework": "Hugo", "static_folder": "public"},
    ),
]
