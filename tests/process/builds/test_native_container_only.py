"""A Dockerfile that needs a container engine is refused at once on the process engine, with the way out."""

from __future__ import annotations

import json

import pytest

from tests.detect.trees import DJANGO
from tests.needs import needs
from windlass.builders.builder import BuildError, BuildSettings, Order
from windlass.builders.dockerfile_hints import text_of
from windlass.engines.workload import StaticSite
from windlass.process.builds import sources

GO = {"go.mod": "module example.com/shop\n", "main.go": "package main\n"}
VITE = {"package.json": '{"devDependencies": {"vite": "5"}, "scripts": {"dev": "vite"}}', "index.html": ""}


def read(folder, files: dict[str, str], **settings) -> sources.Sources:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    order = Order(
        service="s1",
        org="acme",
        name="shop",
        deployment="d1",
        key="k1",
        commit="c" * 40,
        source=folder,
        settings=BuildSettings(**settings),
    )
    return sources.read(order)


HTML = {"public/index.html": "<p>", "public/secret.html": "<p>", "more/a.html": "<p>"}

REFUSED = [
    (
        "a program that a step compiles",
        {**GO, "Dockerfile": 'FROM golang\nCOPY . .\nRUN go build -o /srv/shop\nCMD ["/srv/shop"]\n'},
        r"^Set builder to RECIPE, or deploy to a cluster with the Docker engine: Dockerfile makes /srv/shop "
        r"in line 3 \(RUN go build -o /srv/shop\), and the process engine runs no instruction of a "
        r"Dockerfile\. The recipe of these files is Go: it is built with `go build -o bin/ \.` and started "
        r"with `\./bin/shop`\.$",
    ),
    (
        "a program of another stage",
        {
            **GO,
            "Dockerfile": 'FROM golang AS b\nRUN make\nFROM x\nCOPY --from=b /x /x\nENTRYPOINT ["/x"]\n',
        },
        r"^Set builder to RECIPE, .* in line 4 \(COPY --from=b /x /x\)",
    ),
    (
        "an archive of Java",
        {"pom.xml": "", "Dockerfile": "FROM maven\nRUN mvn package\nCMD java -jar target/x.jar\n"},
        r"^Set builder to RECIPE, .* makes (target/x\.jar|java) in line 2 \(RUN mvn package\)",
    ),
    (
        "a program that a package of Debian brings",
        {"Dockerfile": "FROM debian\nRUN apt-get install -y nonesuchd\nCMD nonesuchd --port 80\n"},
        r"^Deploy to a cluster with the Docker engine, or set builder to RECIPE and start_command: "
        r"Dockerfile makes nonesuchd in line 2",
    ),
    (
        "a script that a step copies to the programs of the image",
        {
            "composer.json": '{"require": {"laravel/framework": "11"}}',
            "artisan": "",
            "public/index.php": "<?php",
            "docker/start-php.sh": "#!/bin/sh\n",
            "Dockerfile": "FROM php:8.3-fpm\nCOPY docker/start-php.sh /usr/local/bin/\nRUN chmod +x "
            '/usr/local/bin/start-php.sh\nENTRYPOINT ["start-php.sh"]\nCMD ["php-fpm"]\n',
        },
        r"^Set builder to RECIPE, .*: Dockerfile makes start-php\.sh in line [23] ",
    ),
    (
        "a program that npm installs for all",
        {
            "package.json": '{"scripts": {"build": "vite build"}, "devDependencies": {"vite": "5"}}',
            "index.html": "",
            "Dockerfile": "FROM node\nRUN npm install \\\n    && npm install -g serve \\\n    && true\n"
            'CMD ["serve", "-s", "dist"]\n',
        },
        r"^Set builder to RECIPE, .*: Dockerfile installs serve in line 2, .* the folder dist is served\.$",
    ),
    *(
        (
            f"the server of an image of PHP, started by {command}",
            {"index.php": "<?php", "Dockerfile": f"FROM php:8.3-apache\nCOPY . .\nCMD {command}\n"},
            r"^Set builder to RECIPE, .* web server of the image php, .* PHP: it is started with `php -S ",
        )
        for command in ("apache2-foreground", '["/bin/sh", "-c", "apache2-foreground"]', '["php-fpm", "-F"]')
    ),
    (
        "a Dockerfile that cannot be read",
        {"main.py": "print(1)", "Dockerfile": "WORKDIR /app\nCOPY app/ /app\n"},
        r"^Fix Dockerfile, or set builder to RECIPE: Dockerfile line 1: only ARG may come before",
    ),
    (
        "a web server that a base image brings",
        {**VITE, "Dockerfile": "FROM node AS b\nRUN npm run build\nFROM nginx\nCOPY --from=b /dist /html\n"},
        r"^Set builder to RECIPE, .* the web server of the image nginx, .* Vite: it is built with .*, "
        r"and the folder dist is served\.$",
    ),
]


@pytest.mark.parametrize(("files", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_dockerfile_that_needs_a_container_is_refused_before_installation(tmp_path, files, message):
    with pytest.raises(BuildError, match=message):
        read(tmp_path, files, builder="DOCKERFILE")


IN_ITS_PLACE = [
    ("a program that a step compiles", GO, REFUSED[0][1]["Dockerfile"], "./bin/shop"),
    ("another base in the end", GO, "FROM golang:1 AS b\nRUN make\nFROM scratch\n", "./bin/shop"),
    ("one folder", HTML, "FROM nginx:1\nCOPY ./public /usr/share/nginx/html/\nEXPOSE 80\nCMD nginx\n", ""),
    ("a folder for Apache", HTML, "FROM x/httpd\nWORKDIR /usr/local/apache2/htdocs/\nADD public .\n", ""),
    ("the files of a build", VITE, "FROM node:22 AS b\nRUN x\nFROM nginx\nCOPY --from=b /d /h\n", ""),
]


@pytest.mark.parametrize(
    ("files", "dockerfile", "command"),
    [row[1:] for row in IN_ITS_PLACE],
    ids=[row[0] for row in IN_ITS_PLACE],
)
def test_a_recipe_of_the_same_language_is_followed_instead_and_the_log_says_so(
    tmp_path, files, dockerfile, command
):
    found = read(tmp_path, {**files, "Dockerfile": dockerfile})
    assert command in found.start.text
    assert bool(found.start.site) is not bool(command)
    assert not found.start.site or found.start.site.folder == ("public" if files is HTML else "dist")
    assert found.remarks[0].startswith("The recipe of these files is followed, and not Dockerfile: ")


@pytest.mark.parametrize(
    "dockerfile",
    [
        "FROM debian\nRUN make\nCMD /x\n",
        "FROM golang\nENV DATA=/srv/data\nRUN go build -o /x\nCMD /x\n",
        "FROM golang\nENV DB=sqlite:////srv/data\nRUN go build -o /x\nCMD /x\n",
    ],
    ids=["no image of the language", "a path of the image", "a path of the image in an address"],
)
def test_a_recipe_that_may_give_another_application_is_only_offered(tmp_path, dockerfile):
    with pytest.raises(BuildError, match=r"^Set builder to RECIPE"):
        read(tmp_path, {**GO, "Dockerfile": dockerfile})


def test_the_variables_of_a_dockerfile_are_kept_if_the_recipe_is_followed(tmp_path):
    variables = "MODE=strict API=https://a.example/b PORT=80 GOPATH=/go"
    text = f"FROM golang\nENV {variables}\nRUN go build -o /x\nCMD /x\n"
    assert read(tmp_path, {**GO, "Dockerfile": text}).environment == {
        "MODE": "strict",
        "API": "https://a.example/b",
    }


NEXT = {
    "package.json": json.dumps(
        {"dependencies": {"next": "15"}, "scripts": {"build": "next build", "start": "next start"}}
    ),
    "pages/index.js": "",
}
STAGES = (
    "FROM node:22 AS b\nWORKDIR /app\nCOPY . .\nRUN npm run build\nFROM node:22\nWORKDIR {}\n{}\nCMD {}\n"
)


@pytest.mark.parametrize(
    ("folder", "copy", "command", "started"),
    [
        ("/app", "COPY --from=b /app/.next/standalone ./", '["node", "server.js"]', "next start"),
        ("/app", "COPY --from=b /app/.next/standalone ./", '["bun", "run", "server.js"]', "next start"),
        ("/srv", "COPY --from=b /app/out/server.js .", "node server.js", "next start"),
        # Negative controls: a script that the build leaves at this place, and one of the repository.
        ("/app", "COPY --from=b /app/dist ./dist", "node dist/main.js", "node dist/main.js"),
        ("/srv", "COPY --from=b /app .", "node dist/main.js", "node dist/main.js"),
        ("/app", "COPY --from=b /app/.next ./.next", "node pages/index.js", "node pages/index.js"),
    ],
)
def test_a_dockerfile_that_moves_its_script_out_of_a_build_leads_to_the_recipe(
    tmp_path, folder, copy, command, started
):
    made = read(tmp_path, {**NEXT, "Dockerfile": STAGES.format(folder, copy, command)})
    assert made.start.command
    assert text_of(made.start.command) == started
    assert ("moves server.js to its place in line 7" in made.remarks[0]) == (started == "next start")


WATCHED = {
    **GO,
    "go.mod": "module example.com/shop\n",
    "run.sh": "#!/bin/sh\nset -e\ngo run ./seed\nexec air\n",
}
INSTALLS_AIR = """\
FROM golang
RUN curl -sSfL https://x.example/air/install.sh | sh -s -- -b /go/bin
COPY . .
ENTRYPOINT ["./run.sh"]
"""


def test_a_script_that_starts_a_program_of_the_image_leads_to_the_recipe(tmp_path):
    with pytest.raises(
        BuildError, match=r"^Set builder to RECIPE, .*: \./run\.sh starts air, which Dockerfile installs"
    ):
        read(tmp_path, {**WATCHED, "Dockerfile": INSTALLS_AIR})
    # Negative controls: no instruction installs it, and a program of this machine.
    for number, change in enumerate((("air/install", "wind/install"), ("exec air", "exec sleep"))):
        files = {**WATCHED, "Dockerfile": INSTALLS_AIR}
        (tmp_path / str(number)).mkdir()
        assert read(
            tmp_path / str(number), {name: text.replace(*change) for name, text in files.items()}
        ).start.command


@pytest.mark.parametrize(
    "rest",
    [
        "COPY public/index.html /usr/share/nginx/html/",
        "COPY public /usr/share/nginx/html\nCOPY more /usr/share/nginx/html",
        "COPY . /usr/share/nginx/html",
        "COPY public /usr/share/nginx/html\nCOPY nginx.conf /etc/nginx/conf.d/default.conf",
        "COPY public /srv",
        "COPY public /usr/share/nginx/html\nRUN rm /usr/share/nginx/html/secret.html",
        "COPY --chmod=400 public /usr/share/nginx/html",
        "ENV A=b\nCOPY public /usr/share/nginx/html",
    ],
)
def test_a_web_server_that_may_serve_other_files_than_the_recipe_is_only_refused(tmp_path, rest):
    with pytest.raises(BuildError, match=r"^Set builder to RECIPE, or deploy .* the folder public is served"):
        read(tmp_path, {**HTML, "Dockerfile": f"FROM nginx\n{rest}\n"})


TAKEN = [
    (
        "a program of Python",
        {"requirements.txt": "gunicorn\n", "Dockerfile": "FROM x\nRUN y\nCMD gunicorn a:b\n"},
    ),
    (
        "a program of package.json that is installed for all as well",
        {
            "package.json": '{"dependencies": {"serve": "14"}}',
            "Dockerfile": "FROM node\nRUN npm i -g serve\nCMD serve\n",
        },
    ),
    ("its path", {"requirements.txt": "x\n", "Dockerfile": 'FROM x\nRUN y\nCMD ["/venv/bin/gunicorn"]\n'}),
    (
        "a file of the repository",
        {"run.sh": "", "Dockerfile": 'FROM x\nWORKDIR /a\nRUN y\nCMD ["/a/run.sh"]\n'},
    ),
    ("a Python of any version", {"a.py": "", "Dockerfile": "FROM x\nRUN y\nCMD python3.99 a.py\n"}),
    ("a program of this machine", {"Dockerfile": "FROM x\nRUN y\nCMD sleep 5\n"}),
    ("the syntax of a shell", {"Dockerfile": "FROM x\nRUN y\nCMD nonesuchd || sleep 5\n"}),
]


@pytest.mark.parametrize("files", [files for _, files in TAKEN], ids=[name for name, _ in TAKEN])
def test_a_dockerfile_whose_start_program_may_exist_is_used(tmp_path, files):
    assert read(tmp_path, files).start.command


def test_a_start_command_setting_replaces_a_missing_dockerfile_program(tmp_path):
    files = {**GO, "Dockerfile": 'FROM golang\nRUN go build -o /srv/shop\nCMD ["/srv/shop"]\n'}
    assert read(tmp_path, files, has_command=True).start.command
    without = {**GO, "Dockerfile": "FROM nginx\n"}
    assert read(tmp_path, without, has_command=True).start.command is None


@pytest.mark.parametrize(("name", "fallback"), [("vue-router", "index.html"), ("vuex", "")])
def test_a_site_with_client_side_routing_gets_a_fallback(tmp_path, name, fallback):
    package = {"devDependencies": {"vite": "5", name: "4"}, "scripts": {"build": "vite build"}}
    site = read(tmp_path, {"package.json": json.dumps(package), "index.html": ""}).start.site
    assert site == StaticSite(folder="dist", derived_fallback=fallback)


FASTAPI = {"requirements.txt": "fastapi\n", "app/main.py": "from fastapi import FastAPI\napp = FastAPI()\n"}


@pytest.mark.parametrize(
    "base",
    [
        "python:3.11",
        "ubuntu:22.04",
        "python\nENV PYTHONUNBUFFERED 1",
        "python\nENV HOME_OF_APP=/srv/shop\nWORKDIR ${HOME_OF_APP}",
        "tiangolo/uvicorn-gunicorn-fastapi:python3.9",
        "tiangolo/uwsgi-nginx:python3.8\nENV LISTEN_PORT=80 UWSGI_INI=uwsgi.ini STATIC_URL=/static",
    ],
)
def test_a_dockerfile_without_a_command_is_replaced_by_the_recipe(tmp_path, base):
    dockerfile = f"FROM {base}\nCOPY . .\n"
    made = read(tmp_path, {**FASTAPI, "Dockerfile": dockerfile})
    assert made.start.text.startswith("uvicorn app.main:app")
    assert "has neither CMD nor ENTRYPOINT" in made.remarks[0]


def test_a_dockerfile_of_django_that_is_followed_says_which_hosts_to_add(tmp_path):
    settings = {"shop/settings.py": "ALLOWED_HOSTS = []\n"}
    dockerfile = {"Dockerfile": "FROM python\nCOPY . /app\nCMD gunicorn shop.wsgi\n"}
    made = read(tmp_path, {"requirements.txt": "django\ngunicorn\n", **DJANGO, **settings, **dockerfile})
    assert made.start.text == "gunicorn shop.wsgi"
    assert made.remarks[0].startswith("Add the public host of the application, or '*', to ALLOWED_HOSTS")


@needs("php")
def test_a_dockerfile_of_the_php_image_is_replaced_by_the_php_recipe(tmp_path):
    files = {"web/index.php": "<?php", "composer.json": "{}", "Dockerfile": "FROM php:apache\nCOPY web .\n"}
    assert read(tmp_path, files).start.text.endswith("php -S 0.0.0.0:${PORT:-8000} -t web")
    # Negative control: an image of another language.
    with pytest.raises(BuildError, match="Set builder to RECIPE"):
        read(tmp_path, {**files, "Dockerfile": "FROM ruby\nCOPY web .\n"})


def test_a_development_server_does_not_replace_the_command_of_an_unknown_image(tmp_path):
    dockerfile = {"Dockerfile": "FROM a/nginx-and-python\nCOPY . .\n"}
    with pytest.raises(BuildError, match=r"it is started with `gunicorn shop\.wsgi"):
        read(tmp_path, {**DJANGO, "requirements.txt": "django\n", **dockerfile})
    # Negative control: where the recipe has no server, the file is run.
    (tmp_path / "other").mkdir()
    made = read(tmp_path / "other", {"main.py": "", "requirements.txt": "", **dockerfile})
    assert made.start.text == "python main.py"


@pytest.mark.parametrize("dockerfile", ["FROM ruby\n", "FROM python\nENV SHOP_DATA=/data\n"])
def test_for_a_dockerfile_with_another_image_or_variables_the_recipe_is_only_suggested(tmp_path, dockerfile):
    with pytest.raises(BuildError, match=r"^Set builder to RECIPE, or deploy"):
        read(tmp_path, {**FASTAPI, "Dockerfile": dockerfile})
