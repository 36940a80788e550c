"""Ruby: Gemfile; Rails, Sinatra and other Rack applications."""

from __future__ import annotations

import re
from typing import Final

from windlass.detect.known_files import KnownFiles
from windlass.detect.language import Language
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_RUBY_VERSION_PATTERN: Final = re.compile(r"^[ \t]*+ruby[ \t(]++['\"]([\w.~><= ]{1,30}+)['\"]", re.MULTILINE)
_GEM_PATTERN: Final = re.compile(r"^[ \t]*+gem[ \t(]++['\"]([\w-]++)['\"]", re.MULTILINE)
_JEKYLL_GEMS: Final = frozenset(["jekyll", "github-pages"])
_SYSTEM_PACKAGES: Final = {
    "pg": "libpq-dev",
    "mysql2": "default-libmysqlclient-dev",
    "sqlite3": "libsqlite3-dev",
    "rmagick": "libmagickwand-dev",
}


def fill(files: KnownFiles, recipe: Recipe) -> None:
    text = files.text("Gemfile")
    gems = set(_GEM_PATTERN.findall(text))
    choose_version_by_file(files, recipe, "ruby", ".ruby-version")
    if version := _RUBY_VERSION_PATTERN.search(text):
        choose_version(recipe, version[1], "Gemfile")
    recipe.choose("Gemfile is there.", package_manager="bundler", install="bundle install")
    named = sorted(gems & _SYSTEM_PACKAGES.keys())
    recipe.choose(
        f"Gemfile names {', '.join(named)}.", system_packages=[_SYSTEM_PACKAGES[name] for name in named]
    )
    # Programs with Sinatra may have a config/application.rb of their own.
    if "rails" in gems or files.has("bin/rails", *(() if "sinatra" in gems else ("config/application.rb",))):
        _rails(files, recipe)
    elif "sinatra" in gems:
        recipe.choose("Gemfile names sinatra.", framework="Sinatra")
    if files.has("config.ru"):
        start = (
            "bundle exec puma -p ${PORT:-3000}"
            if "puma" in gems
            else "bundle exec rackup -o 0.0.0.0 -p ${PORT:-3000}"
        )
        recipe.choose("config.ru is there.", start=start, port=3000)
    for name in ("app.rb", "main.rb", "server.rb"):
        if files.has(name):
            more = " -o 0.0.0.0 -p ${PORT:-4567}" if recipe.framework == "Sinatra" else ""
            recipe.choose(f"{name} is there.", start=f"bundle exec ruby {name}{more}")
    if not recipe.start and (named := sorted(gems & _JEKYLL_GEMS)):
        because = f"Gemfile names {named[-1]}, and its build makes static files there."
        recipe.choose(
            because,
            framework="Jekyll",
            build="env JEKYLL_ENV=production bundle exec jekyll build",
            static_folder="_site",
        )
    if recipe.framework == "Sinatra":
        recipe.choose("Sinatra listens there unless PORT names another.", port=4567)


def _rails(files: KnownFiles, recipe: Recipe) -> None:
    file = files.has("bin/rails", "config/application.rb")
    recipe.choose(f"{file} is there." if file else "Gemfile names rails.", framework="Rails")
    if (
        files.tree.names("app/assets")
        or files.tree.names("app/assets/config")
        or files.has("app/assets/stylesheets/application.css")
    ):
        precompile = "env SECRET_KEY_BASE_DUMMY=1 bundle exec rails assets:precompile"
        recipe.choose("app/assets is there.", build=precompile)
    if files.has("config/database.yml"):
        recipe.choose("config/database.yml is there.", release="bundle exec rails db:migrate")
    recipe.choose(
        "Rails starts its server by this command.",
        start="bundle exec rails server -b 0.0.0.0 -p ${PORT:-3000}",
        port=3000,
    )
    if "rails/health#show" in files.text("config/routes.rb"):
        recipe.choose("config/routes.rb names the health check of Rails.", health_path="/up")
    elif page := files.has("app/views/pwa/manifest.json.erb"):
        recipe.choose(f"{page} is there: versions of Rails that make it answer there.", health_path="/up")


ruby = Language(
    name="Ruby",
    manifests=("Gemfile",),
    rank=10,
    fill=fill,
    manifests_with_paths=("Gemfile",),
    toolchain=Toolchain(
        title="Ruby",
        program="bundle",
        package="ruby-full ruby-bundler",
        others={"ruby": "ruby-full", "gem": "ruby-full", "rake": "ruby-full"},
        passed=("BUNDLE_MIRROR", "BUNDLE_GEMS", "BUNDLE_RUBYGEMS", "BUNDLE_PREFER_LOCAL", "GEM_SOURCE"),
        caches={"BUNDLE_USER_CACHE": "bundle"},
        variables={
            "BUNDLE_PATH": "vendor/bundle",
            "BUNDLE_WITHOUT": "development:test",
            "BUNDLE_GLOBAL_GEM_CACHE": "true",
            "BUNDLE_USER_HOME": "{home}/.bundle",
            "RAILS_ENV": "production",
            "RACK_ENV": "production",
        },
        running={
            "BUNDLE_PATH": "vendor/bundle",
            "BUNDLE_WITHOUT": "development:test",
            "RAILS_ENV": "production",
            "RACK_ENV": "production",
            "RAILS_SERVE_STATIC_FILES": "1",
            "RAILS_LOG_TO_STDOUT": "1",
        },
        kept=("vendor/bundle",),
        results=("vendor/bundle/",),
    ),
)
