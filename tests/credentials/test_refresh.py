# SPDX-License-Identifier: MIT
"""When credentials are fetched anew, and what happens when that fails."""

import os
import time

from chain import ChainTest, iso, metadata_keys, process_keys

NEVER = 10 ** 6


class Refresh(ChainTest):
    """A process that counts its runs: run N writes the file "keys.N", or fails where there is none."""

    def setUp(self):
        super().setUp()
        self.command = self.write("command", "#!/bin/sh\necho x >>runs\nn=$(grep -c x runs)\n"
                                  "cat keys.$n 2>/dev/null || { echo no keys $n >&2; exit 1; }\n",
                                  0o700)
        self.config(f"[default]\ncredential_process = {self.command}\n")
        self.now = time.time()

    def lives(self, **seconds):
        """run=seconds, counted from now, that its keys live; NEVER: for ever."""
        for name, left in seconds.items():
            number = name.removeprefix("run")
            expires = None if left == NEVER else self.now + left
            self.write(f"keys.{number}", process_keys(f"AK{number}", expires))

    def runs(self):
        if not os.path.exists(self.path("runs")):
            return 0
        with open(self.path("runs")) as file:
            return len(file.readlines())

    def names(self, *steps):
        """What each get gives: a key, or the name of an error."""
        return [line.get("access_key") or line.get("error")
                for line in self.show("open", *steps)[1:]]

    def test_not_before_15_minutes(self):
        self.lives(run1=3600, run2=9000)
        # Between the steps the clock goes on by itself, by a second or a few.
        self.assertEqual(["AK1", "AK1", "AK2", "AK2"],
                         self.names("get", "+2660", "get", "+60", "get", "get"))
        self.assertEqual(2, self.runs())

    def test_never(self):
        self.lives(run1=NEVER, run2=NEVER)
        self.assertEqual(["AK1", "AK1"], self.names("get", "+900000000", "get"))

    def test_failure_is_tolerated_until_10_minutes(self):
        self.lives(run1=3600)
        self.assertEqual(["AK1", "AK1", "AK1", "EACCES"],
                         self.names("+2720", "get", "+70", "get", "+160", "get", "+100", "get"))

    def test_tolerated_failure_is_tried_again_after_a_minute(self):
        self.lives(run1=3600, run3=9000)
        steps = ["+2720", "get", "+20", "get", "+20", "get", "+40", "get", "get"]
        self.assertEqual(["AK1", "AK1", "AK1", "AK3", "AK3"], self.names(*steps))
        self.assertEqual(3, self.runs())

    def test_failure_is_given_again_for_seconds(self):
        self.lives(run1=3600, run3=9000)
        lines = self.show("open", "+3100", "get", "get", "get", "+6", "get")
        for line in lines[1:4]:
            self.assertEqual(("EACCES", "credentials of profile default (process): the process ended "
                              "with status 1: no keys 2"), (line["error"], line["message"]))
        self.assertEqual("AK3", lines[4]["access_key"])
        self.assertEqual(3, self.runs())

    def test_clock_that_goes_back(self):
        """A failure that is still to come holds nobody up."""
        self.lives(run1=3600, run3=9000)
        self.assertEqual(["EACCES", "AK3"], self.names("+3100", "get", "+-10", "get"))

    def test_expired_says_the_service(self):
        self.lives(run1=NEVER, run2=NEVER, run3=NEVER)
        self.assertEqual(["AK1", "AK2", "AK2"], self.names("get", "expired", "get", "get"))
        self.assertEqual(2, self.runs())

    def test_expired_that_are_not_held_any_more(self):
        """Somebody else has refreshed before the refusal was told: once is enough."""
        steps = ("open", "get", "expired", "threads", "expired", "get")
        self.lives(run1=3600, run2=9000, run3=9000)
        self.assertEqual("AK2", self.show(*steps)[-1]["access_key"])
        self.assertEqual(2, self.runs())
        # The same ID with another token.
        self.write("runs", "")
        self.write("keys.2", process_keys("AK1", self.now + 20000).replace("token", "token2"))
        lines = self.show(*steps)
        self.assertEqual(("AK1", True),
                         (lines[-1]["access_key"], lines[-1]["token"] != lines[1]["token"]))
        self.assertEqual(2, self.runs())

    def test_expired_and_no_others(self):
        self.lives(run1=9000, run3=9000)
        self.assertEqual(["AK1", "EACCES", "EACCES", "AK3"],
                         self.names("get", "expired", "get", "get", "+6", "get"))

    def test_short_life(self):
        """Credentials that begin with little time left are not fetched at every get."""
        self.lives(run1=300, run2=900)
        self.assertEqual(["AK1"] * 3 + ["AK2"], self.names("get", "get", "+20", "get", "+60", "get"))
        self.assertEqual(2, self.runs())

    def test_short_life_that_ends_within_a_minute(self):
        self.lives(run1=30, run2=900)
        self.assertEqual(["AK1", "AK2"], self.names("get", "+40", "get"))

    def test_new_ones_that_have_expired(self):
        self.lives(run1=3600, run2=3700)
        lines = self.show("open", "get", "+4000", "get")
        self.assertEqual(("EACCES", "credentials of profile default (process): they have expired"),
                         (lines[2]["error"], lines[2]["message"]))

    def test_threads(self):
        """One of them fetches; the others wait for it."""
        self.lives(run1=3600, run2=9000)
        command = self.read_text(self.command).replace("echo x", "sleep 0.3\necho x")
        self.write("command", command, 0o700)
        lines = self.show("open", "threads", "+3300", "threads", "get")
        self.assertEqual([{"different": 1, "failed": False}] * 2, lines[1:3])
        self.assertEqual("AK2", lines[3]["access_key"])
        self.assertEqual(2, self.runs())

    def test_threads_that_need_not_wait(self):
        self.lives(run1=3600, run2=9000)
        command = self.read_text(self.command).replace("echo x", "sleep 0.5\necho x")
        self.write("command", command, 0o700)
        lines = self.show("open", "+2800", "threads", "get")
        # Seven had what was held, the one that fetched has the new.
        self.assertEqual({"different": 2, "failed": False}, lines[1])
        self.assertEqual("AK2", lines[2]["access_key"])
        self.assertEqual(2, self.runs())

    def test_threads_that_share_a_failure(self):
        self.lives(run1=3600)
        command = self.read_text(self.command).replace("echo x", "sleep 0.3\necho x")
        self.write("command", command, 0o700)
        lines = self.show("open", "+3300", "threads")
        self.assertEqual({"different": 1, "failed": True}, lines[1])
        self.assertEqual(2, self.runs())

    @staticmethod
    def read_text(path):
        with open(path) as file:
            return file.read()

    def test_container(self):
        self.config("")
        self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = self.server.url + "/role"
        self.server.routes["GET", "/role"] = [metadata_keys("AK1", self.now + 3600),
                                              metadata_keys("AK2", self.now + 9000)]
        self.assertEqual(["AK1", "AK1", "AK2"], self.names("get", "+2660", "get", "+60", "get"))

    def test_instance(self):
        self.config("")
        self.server.serve_imds([metadata_keys("AK1", self.now + 6 * 3600),
                                metadata_keys("AK2", self.now + 12 * 3600)])
        self.assertEqual(["AK1", "AK1", "AK2"],
                         self.names("get", "+20660", "get", "+60", "get"))

    def test_environment_runs_out(self):
        self.set_keys("AKENV", session=True)
        self.env["AWS_CREDENTIAL_EXPIRATION"] = iso(self.now + 3600)
        self.assertEqual(["AKENV", "AKENV", "EACCES"],
                         self.names("get", "+2800", "get", "+1000", "get"))
