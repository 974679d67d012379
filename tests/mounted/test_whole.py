# SPDX-License-Identifier: MIT
"""An item that is replaced elsewhere is read whole: one version or another, never half of each."""

import os
import threading
import unittest

from harness import MountedTest, wait_for


class Whole(MountedTest):
    """Readers loop over a large item that is replaced meanwhile."""

    @classmethod
    def prepare(cls):
        cls.second = cls.new_mount(cls.db, "second")
        cls.second.env = cls.mount.env
        cls.second.start()

    @classmethod
    def tearDownClass(cls):
        cls.second.unmount()
        super().tearDownClass()

    @staticmethod
    def version(number):
        """Lengths differ from version to version, and every byte tells the version."""
        return b'{"v": "' + bytes([97 + number % 26]) * (300_000 + number % 7 * 10_007) + b'"}'

    def race(self, replace, rounds):
        self.write("a.json", self.version(0))
        whole = {self.version(number) for number in range(182)}
        done, bad, reads = threading.Event(), [], [0]

        def reader():
            while not done.is_set():
                try:
                    with open(self.path("a.json"), "rb", buffering=0) as file:
                        got = file.readall()
                except OSError as error:  # an item that is always there is never an error
                    bad.append(error)
                    return
                reads[0] += 1
                if got not in whole:
                    bad.append((len(got), got[:20], got[-20:], sorted(set(got[7:-2]))[:5]))
                    return
        threads = [threading.Thread(target=reader) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(1, rounds):
                replace(number)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertEqual([], bad)
        self.assertGreater(reads[0], 4)

    def test_by_second_mount(self):
        path = os.path.join(self.second.point, self.table, "a.json")

        def saved(number):
            try:
                with open(path, "wb", buffering=0) as file:
                    file.write(self.version(number))
            except OSError:  # a conflict: the last version was not seen there yet
                return False
            return True
        self.race(lambda number: wait_for("the other mount's save", lambda: saved(number)), 150)

    def test_by_rename_on_the_second_mount(self):
        folder = os.path.join(self.second.point, self.table)

        def renamed():
            try:
                os.rename(folder + "/tmp", folder + "/a.json")
            except OSError:
                return False
            return True

        def replace(number):
            with open(folder + "/tmp", "wb", buffering=0) as file:
                file.write(self.version(number))
            wait_for("the other mount's rename", renamed)
        self.race(replace, 150)

    def test_by_rename_here(self):
        def replace(number):
            self.write("tmp", self.version(number))
            os.rename(self.path("tmp"), self.path("a.json"))
        self.race(replace, 150)


if __name__ == "__main__":
    unittest.main()
