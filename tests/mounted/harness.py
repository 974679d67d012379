# SPDX-License-Identifier: MIT
"""What mounted tests share: a private place, a store in it, a mount of it, and a second look.

A test class is a MountedTest: one store and one mount for the class, one table of its own for each
test (`self.dir` is its directory, `self.table` its name). What a test did is checked through the
mount, and by clients that do not know the mount: `self.store` reads the store file with Python's
own SQLite. Change records that a test expected are checked once more after the unmount, so that
late ones are found.

ITEMFS_BIN names the directory of the binaries, ITEMFS_LONG=1 asks for long runs.
"""

import errno
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from store import Store, key_of

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
ROOT = os.path.dirname(TESTS)
BIN = os.environ.get("ITEMFS_BIN", os.path.join(ROOT, "build-tests", "bin"))
ITEMFS, ITEMCTL = os.path.join(BIN, "itemfs"), os.path.join(BIN, "itemctl")
LONG = os.environ.get("ITEMFS_LONG") == "1"
PATIENCE = 30  # seconds until something that must happen counts as not happening

DEAD = (errno.ENOTCONN, errno.ECONNABORTED)  # what calls on a mount without a daemon say

# Words in a daemon's log that fail a test.
ALARM = re.compile(
    r"Sanitizer|runtime error:|[Aa]ssert|SUMMARY: |core dumped|double free|stack smashing|"
    r"invalid (pointer|argument to)|fuse: (bad|internal|unknown)|BUG|panic|Segmentation", re.M)

SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=97:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "exitcode=98:second_deadlock_stack=1",
}


def environment(**more):
    """A plain environment for tools: no user's settings, no colours, C.UTF-8."""
    kept = {name: os.environ[name] for name in ("PATH", "USER", "LOGNAME") if name in os.environ}
    kept.update(SANITIZERS)
    kept.update(LC_ALL="C.UTF-8", TERM="xterm", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null")
    kept.update(more)
    return kept


def wait_for(what, condition, seconds=PATIENCE, pause=0.005):
    """Asks CONDITION until it gives something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what}")
        time.sleep(pause)


def is_mounted(path):
    """Whether something is mounted on PATH; does not touch it."""
    quoted = path.replace(" ", "\\040")
    with open("/proc/self/mountinfo", errors="surrogateescape") as info:
        return any(line.split()[4] == quoted for line in info)


def is_served(path):
    """Whether a daemon answers there; waits for one that is just beginning."""
    # Of one and the same mount: a dead one may be cleared away between two questions, and the
    # kernel answers the first one for it.
    place = None
    try:
        place = os.open(path, os.O_PATH)
        device = os.fstat(place).st_dev
        os.statvfs(place)
        with open("/proc/self/mountinfo", errors="surrogateescape") as info:
            ours = {line.split()[2] for line in info if " - fuse.itemfs " in line}
        return f"{os.major(device)}:{os.minor(device)}" in ours
    except OSError as error:
        if error.errno in DEAD:  # what a killed daemon has left
            return False
        raise
    finally:
        if place is not None:
            os.close(place)


def unmount(point):
    """Asks the kernel to unmount. Whoever on the machine looks at all mounts, or at all open files,
    keeps this one busy for a moment: it is asked again."""
    def answered():
        done = subprocess.run(["fusermount3", "-u", point], capture_output=True, text=True)
        return done if "busy" not in done.stderr else None
    try:
        done = wait_for("unmounting", answered)
    except AssertionError as error:
        users = subprocess.run(["fuser", "-vm", point], capture_output=True, text=True)
        raise AssertionError(f"{error}\n{users.stdout}{users.stderr}") from None
    if done.returncode:
        raise AssertionError(done.stderr)


def has_tool(name):
    return shutil.which(name) is not None


class Mount:
    """One itemfs daemon in the foreground, its log in a file."""

    def __init__(self, source, point, options=(), log=None, wrap=(), env=None, program=ITEMFS):
        self.source, self.point, self.options = source, point, list(options)
        self.log_path = log or point + ".log"
        self.wrap = list(wrap)  # a command before itemfs: strace, prlimit
        self.env = environment(**(env or {}))
        self.program = program
        self.process = None

    def start(self):
        command = self.wrap + [self.program, "-f", self.source, self.point]
        if self.options:
            command += ["-o", ",".join(self.options)]
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, env=self.env)
        # The kernel wakes a poller of mountinfo at each change of the mount table.
        with open("/proc/self/mountinfo", errors="surrogateescape") as info:
            poller = select.poll()
            poller.register(info, select.POLLERR | select.POLLPRI)
            end = time.monotonic() + PATIENCE
            while not is_served(self.point):
                if self.process.poll() is not None:
                    raise AssertionError(f"itemfs ended with {self.process.returncode} before it "
                                         f"mounted:\n{self.log_text()}")
                if time.monotonic() > end:
                    self.process.kill()
                    raise AssertionError(f"no mount after {PATIENCE} s:\n{self.log_text()}")
                poller.poll(20)
        return self

    def alive(self):
        """Fails where the daemon has ended: what comes next would wait for it in vain."""
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon has died:\n{self.log_text()[-6000:]}")

    def log_text(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def unmount(self):
        """The daemon ends by itself then."""
        unmount(self.point)
        self.ended()

    def ended(self, status=0):
        """The daemon has ended with STATUS and its log holds nothing alarming."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            waiting = self.threads()
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon did not end:\n{waiting}\n{self.log_text()}") from None
        finally:
            self.log.close()
        text = self.log_text()
        if self.process.returncode != status or ALARM.search(text):
            raise AssertionError(f"the daemon ended with {self.process.returncode}:\n{text[-6000:]}")

    def threads(self):
        """What each thread of the daemon waits for: its stack where gdb is there, else the kernel's
        word for it."""
        if has_tool("gdb"):
            return subprocess.run(["gdb", "-p", str(self.process.pid), "-batch", "-ex",
                                   "thread apply all backtrace"], capture_output=True, text=True,
                                  check=False).stdout[-8000:]
        folder, lines = f"/proc/{self.process.pid}/task", []
        for thread in os.listdir(folder):
            texts = []
            for name in ("comm", "wchan", "syscall"):
                with open(f"{folder}/{thread}/{name}") as file:
                    texts.append(file.read().strip())
            lines.append(" ".join([thread, *texts]))
        return "\n".join(lines)

    def terminate(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.ended()

    def kill(self):
        """As the out-of-memory killer would: the mount point stays, dead."""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def remount(self):
        self.unmount()
        return self.start()

    def rescue(self):
        """At the end of a test class, in whatever state it is: nothing stays mounted or running."""
        while is_mounted(self.point):
            if subprocess.run(["fusermount3", "-u", "-z", self.point],
                              capture_output=True).returncode:
                break
        if self.process and self.process.poll() is None:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class PlaceTest(unittest.TestCase):
    """A private directory for the class, removed at its end. No mount yet."""

    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        # Not in /tmp: vim and emacs make no backups of files there.
        cls.place = tempfile.mkdtemp(prefix="itemfs-test-", dir="/var/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.home = os.path.join(cls.place, "home")
        os.mkdir(cls.home)

    @classmethod
    def new_mount(cls, source, name, options=(), **more):
        """A Mount object for a new directory NAME; cleared away at the end, not started."""
        point = os.path.join(cls.place, name)
        os.makedirs(point, exist_ok=True)
        mount = Mount(source, point, options, **more)
        cls.addClassCleanup(mount.rescue)
        return mount

    @classmethod
    def environment(cls, **more):
        return environment(HOME=cls.home, XDG_STATE_HOME=os.path.join(cls.home, "state"), **more)

    def run_tool(self, command, status=0, cwd=None, **more):
        """Runs COMMAND (a list), expects STATUS (None: any), returns the finished process."""
        more.setdefault("env", self.environment())
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(command, capture_output=True, cwd=cwd or self.place, timeout=300,
                              text=more.pop("text", True), **more)
        if status is not None:
            self.assertEqual(status, done.returncode,
                             f"{command}\nstdout: {done.stdout[:2000]}\nstderr: {done.stderr[-4000:]}")
        return done

    def sh(self, script, status=0, **more):
        """Runs SCRIPT by bash; in a mounted test the current directory is the test's table."""
        return self.run_tool(["bash", "-euo", "pipefail", "-c", script], status,
                             cwd=more.pop("cwd", getattr(self, "dir", None)), **more)

    def assertErrno(self, number, function, *arguments, **more):
        with self.assertRaises(OSError) as caught:
            function(*arguments, **more)
        self.assertEqual(os.strerror(number), os.strerror(caught.exception.errno))


class MountedTest(PlaceTest):
    options = ()
    config = None  # text of a mount.conf that stands for the store, {store} in it

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.db = os.path.join(cls.place, "items.db")
        cls.source = cls.db
        cls.make_source()
        if cls.config is not None:
            cls.source = os.path.join(cls.place, "mount.conf")
            with open(cls.source, "w") as file:
                file.write(cls.config.format(store=cls.db))
        cls.store = Store(cls.db, ITEMCTL, cls.environment())
        cls.expected = {}  # table name -> change records that it must have at the end
        cls.deaths = []    # logs of daemons that ended within a test
        cls.mount = cls.new_mount(cls.source, "mnt", cls.options)
        cls.mount.env = cls.environment()
        cls.mnt = cls.mount.point
        cls.mount.start()
        if "ro" not in cls.options:
            cls.prepare()

    @classmethod
    def make_source(cls):
        """For subclasses: what must be there before it is mounted."""

    @classmethod
    def prepare(cls):
        """For subclasses: what all tests of the class start from."""

    @classmethod
    def tearDownClass(cls):
        cls.mount.unmount()
        late = {table: (want, got) for table, want in cls.expected.items()
                if (got := cls.store.changes(table)) != want}
        if late:
            raise AssertionError(f"change records came late: (expected, found) {late}")
        if cls.deaths:
            raise AssertionError("the daemon died:\n" + "\n".join(cls.deaths))

    def setUp(self):
        self.table = self.table_of(self.id().split(".")[-1])
        self.dir = os.path.join(self.mnt, self.table)
        self.seen = 0
        try:
            os.statvfs(self.mnt)
        except OSError as error:  # an earlier test has cost the daemon its life
            self.assertIn(error.errno, DEAD)
            self.mount.process.wait(PATIENCE)
            type(self).deaths.append(self.mount.log_text()[-5000:])
            self.mount.start()
        self.make_table()

    @staticmethod
    def table_of(test):
        return re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_"))[:60]

    def make_table(self):
        os.mkdir(self.dir)

    def itemctl(self, *arguments, status=0, **more):
        return self.run_tool([ITEMCTL, "-s", self.source, *arguments], status, **more)

    def create(self, table, *arguments):
        """A table made by itemctl, seen here when this returns; gives its directory."""
        self.itemctl("create", table, *arguments)
        directory = os.path.join(self.mnt, table)
        wait_for("the new table", lambda: os.path.isdir(directory), 2)
        return directory

    # Files in the test's table.

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data, fsync=False, flags=os.O_CREAT | os.O_TRUNC):
        """A save as a program does it; an error of any step comes out as OSError."""
        fd = os.open(self.path(name), os.O_WRONLY | flags, 0o644)
        try:
            if data:
                os.write(fd, data if isinstance(data, bytes) else data.encode())
            if fsync:
                os.fsync(fd)
        except OSError:
            try:
                os.close(fd)
            except OSError:
                pass
            raise
        os.close(fd)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def names(self, directory=None):
        return sorted(os.listdir(directory or self.dir))

    # What the store has, without the mount.

    def assertStored(self, name, body, table=None):
        """The item's body in the store, byte for byte; a name of a table without sort key."""
        body = body if isinstance(body, bytes) else body.encode()
        self.assertEqual(body, self.store.body(table or self.table, key_of(name)))

    def assertBoth(self, name, body):
        """The item reads as BODY through the mount and in the store."""
        body = body if isinstance(body, bytes) else body.encode()
        self.assertEqual(body, self.read(name))
        self.assertEqual(len(body), os.stat(self.path(name)).st_size)
        self.assertStored(name, body)

    def mark(self):
        """Change records up to here are not the test's matter."""
        self.seen = len(self.store.changes(self.table))

    def assertChanges(self, *wanted, table=None):
        """Since mark(), exactly these change records: "INSERT a", "MODIFY a", in this order."""
        table = table or self.table
        skip = self.seen if table == self.table else 0
        end = time.monotonic() + 5  # a last commit may come with the release, after close
        while True:
            got = self.store.changes(table)
            if len(got) - skip >= len(wanted) or time.monotonic() > end:
                break
            time.sleep(0.005)
        self.assertEqual(list(wanted), got[skip:])
        type(self).expected[table] = got

    def drafts(self, table=None):
        """Names of the kept drafts of the table."""
        folder = os.path.join(self.mnt, ".itemfs", "drafts", table or self.table)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def draft(self, name):
        """(bytes, reason) of the draft of the item NAME."""
        path = os.path.join(self.mnt, ".itemfs", "drafts", self.table, name)
        with open(path, "rb") as file:
            return file.read(), os.getxattr(path, "user.itemfs.error").decode()


if __name__ == "__main__":
    sys.exit("This is no test: run tests/run, or tests/runner.py with a test file.")
