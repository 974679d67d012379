# SPDX-License-Identifier: MIT
"""Disks for tests: small ones, ones that are unmounted, ones that hang. They are mounted in a
namespace of the test program's own, so that nothing is left however it ends."""

import ctypes
import os
import subprocess

CLONE_NEWNS = 0x20000
MNT_DETACH = 2
why_not = None  # why nothing can be mounted


def enter_namespace():
    """For setUpModule: what is mounted from now on is seen by this program and its children."""
    global why_not
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        why_not = f"mounting is not permitted: {os.strerror(ctypes.get_errno())}"
        return
    done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, text=True)
    if done.returncode:
        why_not = f"mounting is not permitted: {done.stderr}"
    with open("/proc/self/mountinfo") as file:
        others = [line.split()[4] for line in file if " - fuse" in line]
    for path in others:  # a copy that is kept here would keep the daemons of other tests alive
        libc.umount2(path.encode().decode("unicode_escape").encode(), MNT_DETACH)


class Disks:
    """Mixed into a test case."""

    def need_disks(self):
        if why_not:
            self.skipTest(why_not)

    def mount_memory(self, path, size):
        self.need_disks()
        os.makedirs(path, exist_ok=True)
        self.run_tool(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path])
        self.addCleanup(self.drop, path)

    def mount_ext4(self, path, megabytes=32):
        """A loop device with a journal; its image is kept, so that it can be mounted again."""
        self.need_disks()
        os.makedirs(path, exist_ok=True)
        image = path + ".image"
        if not os.path.exists(image):
            with open(image, "wb") as file:
                file.truncate(megabytes << 20)
            self.run_tool(["mkfs.ext4", "-q", "-F", image])
        self.run_tool(["mount", "-o", "loop", image, path])
        self.addCleanup(self.drop, path)

    def unmount(self, path):
        self.run_tool(["umount", path])

    @staticmethod
    def drop(path):
        subprocess.run(["umount", "-l", path], capture_output=True)

    def remount(self, path, options):
        self.run_tool(["mount", "-o", "remount," + options, path])

    def freeze(self, path):
        """What writes there waits until thaw(). A guard thaws it when this program ends."""
        self.guard = subprocess.Popen(
            ["sh", "-c", 'read x; exec fsfreeze -u "$0"', path], stdin=subprocess.PIPE,
            start_new_session=True)
        self.addCleanup(self.thaw)
        self.run_tool(["fsfreeze", "-f", path])

    def thaw(self):
        if self.guard:
            self.guard.stdin.close()
            self.assertEqual(0, self.guard.wait())
        self.guard = None
