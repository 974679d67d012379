# SPDX-License-Identifier: MIT
"""That engines start, keep to themselves, come back, and are gone afterwards; and that what is
written of them is what the tests hold them to. How they behave: the other tests here."""

import os
import signal
import subprocess
import sys
import unittest

import behaviour
import differences
import engines

ROOT = os.path.dirname(os.path.dirname(engines.HERE))
PROGRAM = [sys.executable, "-B", os.path.join(engines.HERE, "engines.py")]
KEEPERS = ("dynalite", "dynoxide")  # that can keep their data


def alive(pid):
    """Whether a process runs; one that only its parent has not buried yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def table_of(db, name):
    db.create_table(TableName=name, BillingMode="PAY_PER_REQUEST",
                    KeySchema=behaviour.key_schema("pk"),
                    AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
    db.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 0.02,
                                                                     "MaxAttempts": 500})


class Engines(unittest.TestCase):
    def test_one_engine_runs_here(self):
        said = []
        here = engines.available(said.append)
        for line in said:
            print(line)
        self.assertTrue(here, "no engine runs here:\n" + "\n".join(said))

    def each(self, names=tuple(engines.ENGINES)):
        here = [name for name in names if not engines.missing(name)]
        if not here:
            self.skipTest("; ".join(engines.missing(name) for name in names))
        for name in here:
            with self.subTest(name):
                yield name

    def test_two_of_a_kind_share_nothing(self):
        for name in self.each():
            with engines.engine(name) as one, engines.engine(name) as two:
                self.assertNotEqual(one.endpoint, two.endpoint)
                table_of(one.client(), "of-one")
                self.assertEqual([], two.client().list_tables()["TableNames"])

    def test_nothing_stays_behind(self):
        for name in self.each():
            with self.assertRaisesRegex(RuntimeError, "the test failed"):
                with engines.engine(name, kept=True) as it:
                    raise RuntimeError("the test failed")
            self.assertFalse(alive(it.process.pid))
            self.assertFalse(os.path.exists(it.directory))

    def test_kept_data_survives_a_kill(self):
        for name in self.each(KEEPERS):
            with engines.engine(name, kept=True) as it:
                db, before = it.client(), it.endpoint
                table_of(db, "kept")
                db.put_item(TableName="kept", Item={"pk": {"S": "a"}})
                it.restart()
                self.assertEqual(before, it.endpoint)
                self.assertIn("Item", db.get_item(TableName="kept", Key={"pk": {"S": "a"}}))

    def test_paused_engine_goes_on(self):
        name = next(iter(engines.available(lambda _: None)))
        with engines.engine(name) as it:
            it.pause()
            with self.assertRaises(TimeoutError):
                it.call("ListTables", {}, seconds=0.2)
            it.resume()
            self.assertEqual(200, it.call("ListTables", {}).status)

    def test_engine_dies_with_its_test(self):
        """As when ctest kills a test that takes too long."""
        for name in self.each():
            script = (f"import engines, sys; it = engines.Engine({name!r}).start();"
                      "print(it.process.pid, it.directory, flush=True); sys.stdin.read()")
            with subprocess.Popen([sys.executable, "-B", "-c", script], cwd=engines.HERE,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as test:
                pid, directory = test.stdout.readline().split()
                self.addCleanup(subprocess.run, ["rm", "-rf", directory], check=True)
                self.assertTrue(alive(pid))
                test.send_signal(signal.SIGKILL)
            try:
                gone = os.pidfd_open(int(pid))
                self.addCleanup(os.close, gone)
                import select
                select.select([gone], [], [], 30)
            except ProcessLookupError:
                pass
            self.assertFalse(alive(pid))

    def test_what_does_not_start_says_why(self):
        name = next(iter(engines.available(lambda _: None)))
        it = engines.Engine(name)
        self.addCleanup(it.stop)
        command, ready = engines.ENGINES[name]
        self.addCleanup(engines.ENGINES.__setitem__, name, (command, ready))
        engines.ENGINES[name] = (lambda *_: ["sh", "-c", "echo out of luck; exit 3"], ready)
        with self.assertRaisesRegex(AssertionError, "out of luck"):
            it.start()

    def test_missing_engine_says_why(self):
        self.addCleanup(setattr, engines, "PLACE", engines.PLACE)
        engines.PLACE = os.path.join(engines.HERE, "no-such-place")
        self.assertEqual([], engines.available(lambda _: None))
        self.assertRegex(engines.missing("moto"), "^skipped: moto: not installed")
        with self.assertRaisesRegex(unittest.SkipTest, "skipped: moto"):
            with engines.engine("moto"):
                pass


class Program(unittest.TestCase):
    def run_program(self, *arguments, **more):
        return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=120,
                              check=False, **more)

    def test_list(self):
        done = self.run_program("list")
        self.assertEqual(0, done.returncode, done.stderr)
        for name, line in zip(engines.ENGINES, done.stdout.splitlines(), strict=True):
            self.assertRegex(line, rf"^({name} \d+\.\d+\.\d+|skipped: {name}: .+)$")

    def test_run(self):
        name = next(iter(engines.available(lambda _: None)))
        done = self.run_program("run", name, "--", "sh", "-c",
                                'echo "$AWS_ENDPOINT_URL $AWS_ACCESS_KEY_ID"; exit 7')
        self.assertRegex(done.stdout, r"^http://127\.0\.0\.1:\d+ test$")
        self.assertEqual(7, done.returncode)

    def test_run_without_the_engine(self):
        done = self.run_program("run", "moto", "--", "false",
                                env={**os.environ, "ITEMFS_ENGINES": "/nonexistent"})
        self.assertEqual(0, done.returncode)
        self.assertRegex(done.stdout, "^skipped: moto: .*\n0 passed, 0 failed, 1 skipped\n$")

    def test_usage(self):
        self.assertEqual(2, self.run_program("run", "moto").returncode)


class Documented(unittest.TestCase):
    def test_table_of_differences(self):
        with open(os.path.join(ROOT, "docs", "ENGINES.md")) as file:
            lines = file.read().splitlines()
        start = lines.index(next(differences.rows()))
        end = next((place for place in range(start, len(lines)) if not lines[place]), len(lines))
        self.assertEqual(list(differences.rows()), lines[start:end],
                         "docs/ENGINES.md: put the output of tests/engines/differences.py there")

    def test_every_difference_is_tried(self):
        """What no test names any more must not stay in the table."""
        texts = ""
        for name in os.listdir(engines.HERE):
            if name.startswith("test_"):
                with open(os.path.join(engines.HERE, name)) as file:
                    texts += file.read()
        self.assertEqual([], [feature for feature in differences.DIFFERENCES
                              if f'"{feature}"' not in texts])


class Moto(unittest.TestCase):
    def test_sts(self):
        """What moto has beside DynamoDB, for credential chains."""
        with engines.engine("moto") as it:
            given = it.client("sts").assume_role(RoleArn="arn:aws:iam::123456789012:role/some",
                                                 RoleSessionName="session")["Credentials"]
            self.assertTrue(given["SessionToken"])
