# SPDX-License-Identifier: MIT
"""Runs a program on a terminal of its own and types for it."""

import fcntl
import os
import pty
import select
import struct
import termios
import time


def interact(command, steps, cwd, env, seconds=30):
    """Runs COMMAND; for each (TEXT, KEYS) of STEPS waits until the screen got TEXT since the step
    before ("" waits for nothing), then types KEYS. Returns (exit status, all output)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(command[0], command, env)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output, since = b"", 0
    steps = list(steps)
    end = time.monotonic() + seconds
    try:
        while True:
            while steps and steps[0][0].encode() in output[since:]:
                since = len(output)
                os.write(fd, steps.pop(0)[1].encode())
            ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                raise AssertionError(f"{command}: waits for {steps[:1]} after {output[-2000:]!r}")
            try:
                data = os.read(fd, 65536)
            except OSError:  # EIO: the program has closed the terminal
                data = b""
            if not data:
                break
            output += data
    finally:
        os.close(fd)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), output.decode(errors="replace")
