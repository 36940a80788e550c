"""The repository of the shop of the manual: https://git.example.com/acme/shop.git"""

from __future__ import annotations

from pathlib import Path

import windlass.demo

DOCKERFILE = """
FROM python:3-slim
WORKDIR /app
COPY . .
EXPOSE 8080
CMD ["python3", "app.py"]
"""
APP = """
# The page of the shop: its goods, the version of its tables, and where its pictures are.

import http.server
import os

import postgres

BUCKET = os.environ.get("BUCKET", "no bucket")
SCHEMA = os.environ.get("SCHEMA", "none")


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with postgres.DatabaseConnection(os.environ["DB_URL"]) as database:
            goods = [name for (name,) in database.execute("SELECT name FROM goods ORDER BY name")]
        body = f"{', '.join(goods)} (tables {SCHEMA}, pictures in {BUCKET})".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ.get("PORT", "8080"))), Page).serve_forever()
"""
MIGRATE = """
# Brings the tables up to date, and tells the services of the environment which version they have.

import json
import os

import postgres

with postgres.DatabaseConnection(os.environ["DB_URL"]) as database:
    database.execute("CREATE TABLE IF NOT EXISTS goods (name text PRIMARY KEY)")
    database.execute("INSERT INTO goods VALUES ('rope'), ('soap') ON CONFLICT DO NOTHING")
with open(os.environ["WINDLASS_OUTPUT"], "w") as output:
    json.dump({"SCHEMA": {"value": "1", "description": "The version of the tables"}}, output)
print("the tables have version 1")
"""
REPORT = """
# The nightly report.

import os

import postgres

with postgres.DatabaseConnection(os.environ["DB_URL"]) as database:
    ((number,),) = database.execute("SELECT count(*) FROM goods")
print(f"{number} sorts of goods")
"""
MODULE = """
resource "terraform_data" "suffix" {
  input = substr(sha256(uuid()), 0, 8)
  lifecycle {
    ignore_changes = [input] # the name is chosen once
  }
}

output "name" {
  value = "shop-${terraform_data.suffix.output}"
}
"""
POSTGRES = Path(windlass.demo.__file__).with_name("application") / "guestbook/postgres.py"
"""A client of PostgreSQL that needs no package."""

FILES: dict[str, str | bytes] = {
    "Dockerfile": DOCKERFILE,
    "app.py": APP,
    "migrate.py": MIGRATE,
    "report.py": REPORT,
    "postgres.py": POSTGRES.read_bytes(),
    "infra/main.tf": MODULE,
}
