"""The variables without which the code of an application fails."""

from __future__ import annotations

import pytest

from tests.detect.trees import FLASK, package, tree_of
from windlass.detect import detect

PYDANTIC = """from pydantic import BaseModel
from pydantic_settings import BaseSettings

class Order(BaseModel):
    name: str

class Settings(BaseSettings):
    smtp_host: str
    smtp_port: int = 25
    sentry_dsn: str | None = None
    mail_from: EmailStr  # who sends

def use() -> None:
    other: str
"""
ZOD = """export const env = z.object({
  MAIL_URL: z.string().url(),
  REGION: z.string().default("eu"),
  STRIPE_PRICE: z
    .string(),
  LIMIT: z.coerce.number().optional(),
  LONG: z.string()
    .min(3)
    .optional(),
}).parse(process.env);
"""
ENVALID = "cleanEnv(process.env, {\n  MAIL_URL: url(),\n  A_B: str({ default: '' }),\n})"
DECOUPLE = "from decouple import config\na = config('SMTP_HOST'), config('B_C', default=1)"
RACK = {"Gemfile": "gem 'sinatra'\n", "config.ru": "run App"}
RUBY = "ENV.fetch('MAIL_URL'); ENV.fetch('A_B', 1); ENV.fetch('C_D') { 1 }"
EXPRESS = package("express", start="node x.js")


def python(code: str) -> dict[str, str]:
    return {"requirements.txt": "flask\n", "app.py": f"{FLASK}{code}\n"}


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (python("a = os.environ['SMTP_HOST']; b = os.environ.get('SMTP_USER')"), ["SMTP_HOST"]),
        (python("os.environ['SMTP_HOST'] = 'x'"), []),
        (python("if 'SMTP_HOST' in os.environ: use(os.environ['SMTP_HOST'])"), []),
        (python("try:\n    a = os.environ['SMTP_HOST']\nexcept KeyError: pass"), []),
        (python(DECOUPLE), ["SMTP_HOST"]),
        (python("env = environ.Env()\na = env('SMTP_HOST'), env.int('SMTP_PORT', 25)"), ["SMTP_HOST"]),
        ({**python(""), "settings.py": PYDANTIC}, ["SMTP_HOST", "MAIL_FROM"]),
        ({"package.json": EXPRESS, "x.js": "", "env.ts": ZOD}, ["MAIL_URL", "STRIPE_PRICE"]),
        ({"package.json": EXPRESS, "x.js": ENVALID}, ["MAIL_URL"]),
        ({"package.json": EXPRESS, "x.js": "config.getOrThrow<string>('MAIL_URL')"}, ["MAIL_URL"]),
        ({**RACK, "app.rb": RUBY}, ["MAIL_URL"]),
        # Windlass, the address of a database and secrets of the application itself are provided.
        (python("a = os.environ['PORT'], os.environ['DATABASE_URL'], os.environ['SECRET_KEY']"), []),
    ],
)
def test_variables_without_which_the_code_fails_are_found(files, names):
    assert detect(tree_of(files)).required_variables == names


def test_the_reason_names_the_files_that_read_them():
    recipe = detect(tree_of(python("a = os.environ['SMTP_HOST'], os.environ['MAIL_FROM']")))
    assert recipe.reasons["required_variables"] == "app.py reads them without a default."
