"""Build stages of Ruby, PHP, Deno, Elixir and Perl, and of folders without a language to install."""

from __future__ import annotations

from typing import Final

from windlass.detect.dockerfile.base_images import BASE_IMAGES, SLIM
from windlass.detect.dockerfile.instructions import CacheMount
from windlass.detect.dockerfile.stages import (
    APP_FOLDER,
    BuildStage,
    DockerfileOptions,
    HealthCheck,
    RunStep,
    Stages,
    names_any,
)
from windlass.detect.known_files import KnownFiles
from windlass.detect.recipe import Recipe

_GEM_FOLDER: Final = "/bundle"
_BUNDLER_CACHE: Final = CacheMount("bundler", "/root/.bundle/cache")
_COMPOSER_CACHE: Final = CacheMount("composer", "/root/.composer/cache")
_NPM_CACHE: Final = CacheMount("npm", "/root/.npm")
_HEX_CACHE: Final = CacheMount("hex", "/root/.cache", is_locked=True)
_CARTON_INSTALLATION: Final = RunStep("cpanm --from https://cpan.metacpan.org --notest Carton")
_EXTENSION_INSTALLER: Final = "/usr/local/bin/install-php-extensions"

_RUBY_ASKS: Final = (
    'exit Net::HTTP.get_response(URI("http://127.0.0.1:" + ENV.fetch("PORT", ARGV[0]) + ARGV[1]))'
    ".code.to_i < 400"
)
_RUBY_CONNECTS: Final = 'TCPSocket.new("127.0.0.1", ENV.fetch("PORT", ARGV[0])).close'
_PHP_ASKS: Final = (
    '$page = @file_get_contents("http://127.0.0.1:" . (getenv("PORT") ?: $argv[1]) . $argv[2]); '
    "exit($page === false ? 1 : 0);"
)
_PHP_CONNECTS: Final = 'exit(@fsockopen("127.0.0.1", (int) (getenv("PORT") ?: $argv[1])) ? 0 : 1);'


def ruby(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Ruby"]
    build, run = images.tags(images.version_for(recipe.language_version))
    environment = {"BUNDLE_PATH": _GEM_FOLDER, "BUNDLE_WITHOUT": "development:test", "RACK_ENV": "production"}
    if recipe.framework == "Rails":
        environment |= {
            "RAILS_ENV": "production",
            "RAILS_LOG_TO_STDOUT": "1",
            "RAILS_SERVE_STATIC_FILES": "1",
        }
    stage = BuildStage(image=build, environment={**environment, "BUNDLE_GLOBAL_GEM_CACHE": "true"})
    install = [RunStep(recipe.install, (_BUNDLER_CACHE,))] if recipe.install else []
    if "gemspec" in files.text("Gemfile") or recipe.install != "bundle install":
        stage.build = install
    else:
        stage.manifests = [name for name in ("Gemfile", "Gemfile.lock", ".ruby-version") if files.has(name)]
        stage.install = install
    stage.build += [RunStep(recipe.build)] if recipe.build else []
    return Stages(
        image=run,
        builds=[stage],
        environment=environment,
        build_packages=["nodejs", "npm"] if files.has("package.json") and recipe.build else [],
        results=[_GEM_FOLDER, APP_FOLDER],
        check=HealthCheck(
            page=("ruby", "-rnet/http", "-e", _RUBY_ASKS), port=("ruby", "-rsocket", "-e", _RUBY_CONNECTS)
        ),
    )


def php(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    """Installs the packages with PHP, builds the browser assets with Node, and runs the application with
    PHP."""
    images = BASE_IMAGES["PHP"]
    build, run = images.tags(images.version_for(recipe.language_version))
    extensions = [name.removeprefix("php-") for name in recipe.system_packages if name.startswith("php-")]
    borrowed = [("mlocati/php-extension-installer:2", f"/usr/bin/{_EXTENSION_INSTALLER.rpartition('/')[2]}")]
    adding = [RunStep(f"install-php-extensions {' '.join(extensions)}")] if extensions else []
    stage = BuildStage(image=build, borrowed=[("composer:2", "/usr/bin/composer")], tools=[*adding])
    stage.borrowed += borrowed if extensions else []
    stage.environment = {"COMPOSER_ALLOW_SUPERUSER": "1", "COMPOSER_CACHE_DIR": _COMPOSER_CACHE.target}
    stage.build = [RunStep(recipe.install, (_COMPOSER_CACHE,))] if recipe.install else []
    builds = [stage] if recipe.install or recipe.build else []
    if names_any(recipe, "npm"):
        node = BASE_IMAGES["Node"]
        image, _ = node.tags(node.default)
        builds.append(BuildStage(name="assets", image=image, build=[RunStep(recipe.build, (_NPM_CACHE,))]))
    elif recipe.build:
        stage.build.append(RunStep(recipe.build))
    return Stages(
        image=run,
        builds=builds,
        replaced_packages=[f"php-{name}" for name in extensions],
        tools=adding,
        borrowed=borrowed if extensions else [],
        check=HealthCheck(page=("php", "-r", _PHP_ASKS, "--"), port=("php", "-r", _PHP_CONNECTS, "--")),
    )


def deno(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Deno"]
    build, run = images.tags(images.version_for(recipe.language_version))
    environment = {"DENO_DIR": f"{APP_FOLDER}/.deno"}  # another user owns the image's own folder
    stage = BuildStage(image=build, environment=environment)
    stage.build = [RunStep(command) for command in (recipe.install, recipe.build) if command]
    return Stages(
        image=run,
        builds=[stage] if stage.build else [],
        environment=environment,
    )


def elixir(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Elixir"]
    build, run = images.tags(images.version_for(recipe.language_version))
    environment = {"MIX_ENV": "prod", "MIX_HOME": "/mix"}
    stage = BuildStage(image=build, environment=environment)
    stage.tools = [RunStep("mix local.hex --force && mix local.rebar --force", (_HEX_CACHE,))]
    steps = [RunStep(command, (_HEX_CACHE,)) for command in (recipe.install, recipe.build) if command]
    if recipe.install.startswith("mix deps.get"):
        stage.manifests = [name for name in ("mix.exs", "mix.lock") if files.has(name)]
        stage.install, steps = steps[:1], steps[1:]
    stage.build = steps
    return Stages(image=run, builds=[stage], environment=environment, results=["/mix", APP_FOLDER])


def perl(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    images = BASE_IMAGES["Perl"]
    build, run = images.tags(images.version_for(recipe.language_version))
    local = f"{options.folder}/local"
    environment = {"PERL5LIB": f"{local}/lib/perl5", "PATH": f"{local}/bin:$PATH"}
    stage = BuildStage(image=build, tools=[_CARTON_INSTALLATION] if names_any(recipe, "carton") else [])
    steps = [RunStep(command) for command in (recipe.install, recipe.build) if command]
    if files.has("cpanfile") and recipe.install.startswith(("cpanm ", "env PERL_CARTON_MIRROR=")):
        stage.manifests = [name for name in ("cpanfile", "cpanfile.snapshot") if files.has(name)]
        stage.install, steps = steps[:1], steps[1:]
    stage.build = steps
    needs_carton = any("carton" in process.command.split() for process in recipe.processes)
    return Stages(
        image=run,
        builds=[stage] if stage.install or stage.build else [],
        environment=environment,
        tools=[_CARTON_INSTALLATION] if needs_carton else [],
    )


def plan_plain(recipe: Recipe, files: KnownFiles, options: DockerfileOptions) -> Stages:
    """Plans stages without a language. A build stage is added only if the recipe has commands."""
    steps = [RunStep(command) for command in (recipe.install, recipe.build) if command]
    return Stages(image=SLIM, builds=[BuildStage(image=SLIM, build=steps)] if steps else [])
