# SPDX-License-Identifier: MIT
"""What the tests of the client share: the program call_client, and what must never be seen of it.

ITEMFS_BIN names the directory of the binaries, ITEMFS_LONG=1 asks for long runs.
"""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from server import Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ITEMFS_BIN", os.path.join(ROOT, "build-tests", "bin"))
CALL_CLIENT = os.path.join(BIN, "call_client")
LONG = os.environ.get("ITEMFS_LONG") == "1"

ACCESS, SECRET, TOKEN = "AKIDTESTS", "SeCrEt/of+the/tests0", "T0ken=" + "/of+the/tests" * 40


class Client:
    """A running call_client."""

    def __init__(self, test, url, *options, env=None):
        self.test = test
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([CALL_CLIENT, *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log,
                                        env={**test.env, "AWS_ENDPOINT_URL": url, **(env or {})})
        self.seen = b""

    def line(self):
        line = self.process.stdout.readline()
        self.seen += line
        self.test.assertTrue(line.endswith(b"\n"), line + self.errors())
        return json.loads(line)

    def begin(self, *steps, operation="GetItem", pad=0, **job):
        """Starts a job under a script of the server; the id that its requests have."""
        id = self.test.new_id()
        body = json.dumps({"id": id, "script": steps or [{}], "pad": "x" * pad})
        job = {"operation": operation, "body": body, **job}
        self.write(json.dumps(job).encode() + b"\n")
        return id

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def call(self, *steps, **job):
        """Runs a job; its outcome, with the id."""
        id = self.begin(*steps, **job)
        return {**self.line(), "id": id}

    def call_cancelled(self, condition, *steps, **job):
        """Cancels a job once CONDITION(id) holds."""
        id = self.begin(*steps, cancel=True, **job)
        condition(id)
        self.write(b"\n")
        return {**self.line(), "id": id}

    def errors(self):
        self.log.seek(0)
        return self.log.read()

    def close(self, status=0):
        """Ends it, and looks through all that it has said."""
        self.process.stdin.close()
        self.seen += self.process.stdout.read()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.seen += self.errors()
        self.log.close()
        self.test.assertEqual(status, code, self.seen)
        for word in (b"Sanitizer", b"runtime error"):
            self.test.assertNotIn(word, self.seen)
        self.test.assert_no_secret(self.seen)


class ClientTest(unittest.TestCase):
    maxDiff = None
    ids = itertools.count()
    server = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="client-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.env = {
            "PATH": os.environ["PATH"], "HOME": cls.dir, "LC_ALL": "C.UTF-8",
            "AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_SESSION_TOKEN": TOKEN, "AWS_REGION": "eu-test-1",
            "ASAN_OPTIONS": "detect_leaks=1:exitcode=97", "TSAN_OPTIONS": "exitcode=97",
        }

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    def new_id(self):
        return f"id-{next(self.ids)}"

    def assert_no_secret(self, output):
        """No long piece of one either."""
        text = output.decode("utf-8", "replace")
        for secret in (SECRET, TOKEN):
            self.assertNotIn(secret[:14], text)
            self.assertNotIn(secret[-14:], text)

    @contextlib.contextmanager
    def client(self, *options, url=None, env=None, status=0):
        client = Client(self, url or self.server.url(), *options, env=env)
        try:
            yield client
        except BaseException:
            client.process.kill()
            raise
        client.close(status)

    def outcome(self, *steps, options=(), url=None, env=None, **job):
        """Of one job of a client of its own."""
        with self.client(*options, url=url, env=env) as client:
            return client.call(*steps, **job)

    def refusal(self, url, *options, env=None):
        """What a client that does not open says."""
        client = Client(self, url, *options, env=env)
        said = client.line()
        client.close(status=1)
        return said

    def check(self, outcome, code, **wanted):
        """CODE, and of the outcome's other members those named."""
        self.assertEqual({code}, set(outcome["codes"]), outcome)
        got = {name: outcome[name] for name in wanted}
        self.assertEqual(wanted, got, outcome)
