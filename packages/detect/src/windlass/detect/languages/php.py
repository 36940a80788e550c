"""PHP: composer.json or index.php; Laravel, Symfony, WordPress, or plain files."""

from __future__ import annotations

from typing import Final

from windlass.detect.known_files import KnownFiles, table, text_in
from windlass.detect.language import Language
from windlass.detect.procfile import exists_only_at_heroku
from windlass.detect.recipe import Recipe
from windlass.detect.toolchain import Toolchain
from windlass.detect.versions import choose_version, choose_version_by_file

_FRAMEWORKS: Final = {
    "laravel/framework": ("Laravel", "public"),
    "symfony/framework-bundle": ("Symfony", "public"),
    "slim/slim": ("Slim", "public"),
    "cakephp/cakephp": ("CakePHP", "webroot"),
    "codeigniter4/framework": ("CodeIgniter", "public"),
    "yiisoft/yii2": ("Yii", "web"),
}
_PUBLIC_FOLDERS: Final = ("public", "web", "webroot", "htdocs", "www", "")


def fill(files: KnownFiles, recipe: Recipe) -> None:
    content = files.json("composer.json") if files.has("composer.json") else {}
    needed = table(content, "require")
    folder_of_procfile = _drop_heroku_command(recipe)
    choose_version_by_file(files, recipe, "php", ".php-version")
    choose_version(recipe, text_in(needed, "php"), "composer.json")
    installed = (needed.keys() - {"php"}) | (content.keys() & {"autoload"})
    if installed and not files.has("vendor/autoload.php"):
        install = "composer install --no-dev --optimize-autoloader --no-interaction"
        reason = f"composer.json names {min(installed)}."
        recipe.choose(reason, package_manager="composer", install=install)
    framework = next((name for name in _FRAMEWORKS if name in needed), "")
    title, folder = _FRAMEWORKS.get(framework, ("", ""))
    recipe.choose(f"composer.json names {framework}.", framework=title)
    extensions = sorted(name.removeprefix("ext-") for name in needed if name.startswith("ext-"))
    packages = [
        f"php-{name}" for name in extensions if name not in ("ctype", "iconv", "json", "filter", "openssl")
    ]
    recipe.choose("composer.json names the extensions.", system_packages=packages)
    if file := files.has("wp-config.php", "wp-config-sample.php"):
        recipe.choose(f"{file} is there.", framework="WordPress")
    if title == "Laravel":
        recipe.choose("Laravel changes its tables by migrations.", release="php artisan migrate --force")
        recipe.choose(
            "Laravel answers there.", health_path="/up" if "'/up'" in files.text("bootstrap/app.php") else ""
        )
    if title == "Symfony" and "doctrine/doctrine-migrations-bundle" in needed:
        migrate = "php bin/console doctrine:migrations:migrate --no-interaction --allow-no-migration"
        recipe.choose("composer.json names the migrations of Doctrine.", release=migrate)
    _build_assets(files, recipe)
    folder = (
        folder_of_procfile
        or folder
        or next((name for name in _PUBLIC_FOLDERS if files.has(f"{name}/index.php".strip("/"))), "?")
    )
    if folder != "?" and files.has(f"{folder}/index.php".strip("/")):
        of = f" -t {folder}" if folder else ""
        recipe.choose(
            f"{f'{folder}/index.php'.strip('/')} is there.",
            start=f"php -S 0.0.0.0:${{PORT:-8000}}{of}",
            port=8000,
        )


def _drop_heroku_command(recipe: Recipe) -> str:
    """Removes a start command that exists only at Heroku. Returns the folder that the command would serve."""
    if not exists_only_at_heroku(recipe.start):
        return ""
    rest = recipe.start.split()[1:10]
    recipe.forget("start", "processes")
    return rest[-1].strip("/") if rest and not rest[-1].startswith("-") else ""


def _build_assets(files: KnownFiles, recipe: Recipe) -> None:
    """Builds the browser assets if package.json has a build script."""
    if files.has("package.json") and text_in(files.json("package.json"), "scripts", "build"):
        install = "npm ci" if files.has("package-lock.json") else "npm install"
        recipe.choose("package.json builds the files for browsers.", build=f"{install} && npm run build")


php = Language(
    name="PHP",
    manifests=("composer.json",),
    code=("index.php", "public/index.php"),
    rank=10,
    fill=fill,
    manifests_with_paths=("composer.json",),
    toolchain=Toolchain(
        title="PHP",
        program="php",
        package="php-cli",
        others={"composer": "composer"},
        passed=("COMPOSER_AUTH", "COMPOSER_MIRROR", "COMPOSER_ROOT_VERSION"),
        caches={"COMPOSER_CACHE_DIR": "composer"},
        variables={
            "COMPOSER_HOME": "{home}/.composer",
            "COMPOSER_ALLOW_SUPERUSER": "1",
            "COMPOSER_NO_INTERACTION": "1",
        },
    ),
)
