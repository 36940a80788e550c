"""The programs that the conformance suite runs: small, and of the standard library only."""

SLEEPS = """
import time
print("here", flush=True)
time.sleep(1000)
"""

STORES = """
import pathlib, time
file = pathlib.Path("/app/data/file" if pathlib.Path("/app/data").is_dir() else "data/file")
print("again " + file.read_text() if file.exists() else "kept", flush=True)
file.write_text("kept")
time.sleep(1000)
"""

SERVES = """
import os, socket
server = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
print("listening", flush=True)
while True:
    caller, _ = server.accept()
    caller.sendall(f"hello from {os.environ.get('WHO', 'nobody')}".encode())
    caller.close()
"""

LISTENS_AND_LOADS = """
import os, socket, sys, time
server = socket.create_server(("0.0.0.0", int(os.environ["PORT"])))
print("listening", flush=True)
time.sleep(float(os.environ["LOADING"]))  # as the workers of gunicorn load the application
if "FAILS" in os.environ:
    sys.exit(3)
while True:
    print("accepts", flush=True)
    server.accept()
"""

SERVES_ELSEWHERE = SERVES.replace('os.environ["PORT"]', 'os.environ["OWN_CHOICE"]')

ANSWERS_HTTP_ELSEWHERE = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
HTTPServer(("0.0.0.0", int(os.environ["OWN_CHOICE"])), BaseHTTPRequestHandler).serve_forever()
"""

ENDS = """
import os, sys, time
print("ending", flush=True)
time.sleep(float(os.environ.get("AFTER", "0")))
sys.exit(3)
"""

IS_KILLED = """
import os, signal
os.kill(os.getpid(), signal.SIGSEGV)
signal.pause()
"""

ENDS_WELL = """
import signal, sys
def end(*_):
    print("good bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("here", flush=True)
while True:
    signal.pause()
"""

STAYS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
while True:
    time.sleep(1000)
"""

LEAVES_CHILDREN = """
import os, signal, sys, time
for daemon in (False, True):
    if os.fork() == 0:
        if daemon:
            os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1000)
print("here", flush=True)
time.sleep(float(os.environ.get("AFTER", "1000")))
"""

TELLS = """
import json, os, sys
print(json.dumps({
    "variables": dict(os.environ),
    "arguments": sys.argv[1:],
    "files": {path: open(path).read() for path in os.environ.get("READ", "").split()},
    "input": sys.stdin.read(),
}), flush=True)
import time; time.sleep(1000)
"""

COUNTS = """
import os, pathlib, time
file = pathlib.Path(os.environ["VOLUME"]) / "count"
count = int(file.read_text()) + 1 if file.exists() else 1
file.write_text(str(count))
print("count", count, flush=True)
time.sleep(1000)
"""

WRITES = """
import os, socket, sys, time
lines = int(os.environ["LINES"])
if "BEGINS" in os.environ:
    socket.create_connection(("127.0.0.1", int(os.environ["BEGINS"]))).recv(1)
for number in range(lines):
    print("line", number)
sys.stdout.flush()
print("done, without an end", end="", flush=True)
time.sleep(float(os.environ.get("AFTER", "1000")))
"""

WRITES_ALWAYS = """
import time
number = 0
while True:
    print("line", number, flush=True)
    number += 1
    time.sleep(0.005)
"""

ENDS_ONCE = """
import os, pathlib, sys, time
print("begun", flush=True)
if "VOLUME" in os.environ:
    runs = pathlib.Path(os.environ["VOLUME"]) / "runs"
    with runs.open("a") as file:
        file.write(os.environ["RUN"] + "\\n")
    if os.environ["RUN"] == "last":
        print("runs", *runs.read_text().split(), flush=True)
if place := os.environ.get("WINDLASS_OUTPUT"):
    match os.environ.get("OUTPUT"):
        case "link":
            os.symlink("/etc/passwd", place)
        case "folder":
            os.mkdir(place)
        case "long":
            pathlib.Path(place).write_text("x" * 2_000_000)
        case str(text):
            pathlib.Path(place).write_text(text)
time.sleep(float(os.environ.get("AFTER", "0")))
print("the last line", flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""

WORKS = """
while True:
    pass
"""

EATS = """
import time
print("hungry", flush=True)
eaten = []
while True:
    eaten.append(b"x" * (8 << 20))
    time.sleep(0.005)
"""
