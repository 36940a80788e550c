"""`windlass init` sets the secrets of an application and the variables of its example file."""

from __future__ import annotations

import pytest

CODE = (
    "import os\nfrom flask import Flask\napp = Flask(__name__)\napp.secret_key = os.environ['SECRET_KEY']\n"
)
EXAMPLE = """# of the shop
GREETING=hello
PORT=5000
NODE_ENV=development
JWT_SECRET=changeme
DB_HOST=localhost
ADMIN_PASSWORD=admin
MAIL_KEY=
"""


DJANGO = {
    "requirements.txt": "django\n",
    "manage.py": "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n",
    "shop/wsgi.py": "application = None\n",
    "shop/settings.py": "import os\nALLOWED_HOSTS = os.environ.get('ALLOWED_HOSTS', '').split(',')\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "app.py").write_text(CODE)
    (tmp_path / "requirements.txt").write_text("flask\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_init_sets_secrets_to_random_texts_and_other_variables_as_in_the_example_file(windlass, folder):
    (folder / ".env.example").write_text(EXAMPLE)
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert said.code == 0, said
    assert "Set SECRET_KEY, JWT_SECRET to random texts." in said.err, said.err
    assert "Set GREETING as in .env.example. Correct what is a placeholder." in said.err
    assert ".env.example names variables: PORT, NODE_ENV, DB_HOST, ADMIN_PASSWORD, MAIL_KEY" in said.err
    listed = (await windlass.done("env", "list"))["results"]
    assert {entry["key"]: entry["value"] for entry in listed} == {"GREETING": "hello"}
    kept = (await windlass.done("secrets", "list"))["results"]
    assert {entry["key"] for entry in kept} == {"SECRET_KEY", "JWT_SECRET"}


async def test_init_lets_django_answer_to_all_hosts(windlass, folder):
    for name, text in DJANGO.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".env.example").write_text("ALLOWED_HOSTS=localhost\n")
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert (
        "Set ALLOWED_HOSTS to *: the gateway lets only the hosts of the application through." in said.err
    ), said
    assert "to the public host" not in said.err
    listed = (await windlass.done("env", "list"))["results"]
    assert [(entry["key"], entry["value"]) for entry in listed] == [("ALLOWED_HOSTS", "*")]


async def test_init_sets_no_placeholder_and_no_path_of_another_machine(windlass, folder):
    values = {
        "GREETING": "hello from your shop",
        "API_PREFIX": "/api/v1",
        "ALLOWED_HOSTS": "your_domain.com,www.your_domain.com",
        "MAIL_FROM": "shop@example.com",
        "STRIPE_KEY": "sk_test_xxxxxxxx",
        "API_KEY": "<key of the shop>",
        "STATIC_ROOT": "/home/deploy/shop/static",
        "LOG_FILE": "C:\\logs\\shop.log",
        "SECURE_SSL_REDIRECT": "True",
    }
    (folder / ".env.example").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert said.code == 0, said
    listed = (await windlass.done("env", "list"))["results"]
    assert {entry["key"] for entry in listed} == {"GREETING", "API_PREFIX"}, said.err
    assert ".env.example names variables: ALLOWED_HOSTS, MAIL_FROM, " in said.err


async def test_init_names_all_variables_at_once_without_which_the_code_fails(windlass, folder):
    (folder / "config.py").write_text("import os\nA, B = os.environ['SMTP_HOST'], os.environ['GREETING']\n")
    (folder / ".env.example").write_text("GREETING=hello\nSMTP_HOST=\n")
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert said.code == 0, said
    assert said.err.count("SMTP_HOST") == 2, said.err
    assert "The code fails unless SMTP_HOST is set: `windlass env set SMTP_HOST=…` before" in said.err


async def test_a_link_out_of_the_folder_gives_no_variables(windlass, folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_text("GREETING=hello\n")
    (folder / ".env.example").symlink_to(outside)
    said = await windlass("init", "--name", "web", "-e", "shop/production")
    assert (said.code, "GREETING" in said.err) == (0, False), said
