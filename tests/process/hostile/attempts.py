"""A hostile program: tries attacks on the machine that it runs on, and prints which of them worked.

It is told in ATTEMPTS of a server, a victim, and the folders and sockets of both.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def reads(path):
    with open(path, "rb") as file:
        return bool(file.read(1))


def opens(path):
    os.close(os.open(path, os.O_RDWR))
    return True


def writes(folder):
    path = os.path.join(folder, f"written-{os.getpid()}")
    with open(path, "w") as file:
        file.write("here")
    os.unlink(path)
    return True


def lists(folder):
    return bool(os.listdir(folder))


def finds(path):
    return os.path.basename(path) in os.listdir(os.path.dirname(path))


def signals(pid):
    os.kill(pid, signal.SIGCONT)
    return True


def traces(pid):
    """By a child, whose end lets go of it."""
    return in_child(lambda: libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0)


def sees(pid):
    """By what it is started with, because numbers may mean others here."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"stage" in file.read()


def connects(name):
    with socket.socket(socket.AF_UNIX) as there:
        there.connect(name)
    return True


def becomes_root():
    os.setuid(0)
    return os.path.exists("/proc/self") and os.stat("/proc/self").st_uid == 0


def mounts():
    if os.geteuid() and libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
        return False
    if not os.geteuid() and libc.unshare(CLONE_NEWNS):
        return False
    return libc.mount(b"none", b"/usr/share", b"tmpfs", 0, None) == 0


def capable():
    with open("/proc/self/status") as file:
        facts = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    return any(int(facts[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb"))


def shares_memory(key):
    return libc.shmget(key, 1, 0) >= 0


def attempts(told):
    for who in ("server", "victim"):
        pid = told[who]
        yield f"read the environment of the {who}", reads, f"/proc/{pid}/environ"
        yield f"open the memory of the {who}", opens, f"/proc/{pid}/mem"
        yield f"list the descriptors of the {who}", lists, f"/proc/{pid}/fd"
        yield f"signal the {who}", signals, pid
        yield f"trace the {who}", traces, pid
    yield "see the server", sees, told["server"]
    yield "read the key", reads, f"{told['data']}/key"
    yield "read the database", reads, f"{told['data']}/windlass.db"
    yield "find the key in the data directory", finds, f"{told['data']}/key"
    yield "write to the data directory", writes, told["data"]
    yield "find the victim among the services", finds, os.path.dirname(told["home"])
    yield "read the code of the victim", reads, f"{told['home']}/app/main.py"
    yield "write to the code of the victim", writes, f"{told['home']}/app"
    yield "read a file of the victim", reads, f"{told['home']}/files/etc/secret"
    yield "read the record of the victim", reads, f"{told['home']}/record.json"
    yield "read the volume of the victim", reads, f"{told['volume']}/kept"
    yield "write to the volume of the victim", writes, told["volume"]
    yield "read what was built for the victim", reads, f"{told['built']}/app/main.py"
    yield "write to what was built for itself", writes, told["own"]
    yield "read what the server keeps in /tmp", reads, told["temporary"]
    yield "read what the server shares as memory", reads, told["shared"]
    yield "find memory of the server by its number", shares_memory, told["number"]
    yield "connect to an abstract socket of the server", connects, told["socket"]
    yield "read a private file of its user", reads, told["private"]
    yield "write to /etc", writes, "/etc"
    yield "write to /usr", writes, "/usr"
    yield "have capabilities", lambda _: capable(), None
    yield "mount", lambda _: in_child(mounts), None
    yield "become root", lambda _: in_child(becomes_root), None


def in_child(deed):
    child = os.fork()
    if not child:
        try:
            os._exit(0 if deed() else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def worked(told):
    for what, deed, about in attempts(told):
        try:
            if deed(about):
                yield what
        except OSError:
            pass


if __name__ == "__main__":
    told = json.loads(os.environ.get("ATTEMPTS") or open(sys.argv[1]).read())
    print("WORKED " + json.dumps(list(worked(told))), flush=True)
    if "stay" in sys.argv:
        time.sleep(1000)
