# SPDX-License-Identifier: MIT
"""Turns the lines of fsbench into a Markdown table: report.py FILES REPETITIONS DIRECTORY.

DIRECTORY holds native.txt, floor.txt, floor-readonly.txt, itemfs.txt and readonly.txt.
"""

import os
import platform
import subprocess
import sys

KILL, POWER, READ = "kill -9", "power failure", ""
# Title, fsbench's name, the ratio to stay under, what an acknowledged write survives.
ROWS = [
    ("`ls -f` cold", "ls_f_cold", 4.0, READ),
    ("`ls -f` warm", "ls_f_warm", 0.6, READ),
    ("`ls -l` cold", "ls_l_cold", 0.8, READ),
    ("`ls -l` warm", "ls_l_warm", 0.7, READ),
    ("`find -size` cold", "find_size_cold", 1.0, READ),
    ("`find -size` warm", "find_size_warm", 1.1, READ),
    ("`grep -r` cold", "grep_r_cold", 0.7, READ),
    ("`grep -r` warm", "grep_r_warm", 4.0, READ),
    ("rsync out, cold", "rsync_full_cold", 0.8, READ),
    ("rsync, nothing to do", "rsync_nochange_warm", 1.8, READ),
    ("create + write + close", "create_write_close", 4.0, KILL),
    ("`sed -i` of 1,000", "sed_i_1000", 4.0, KILL),
    ("rewrite", "overwrite_trunc_mean", 2.0, KILL),
    ("temporary + rename", "replace_rename_mean", 2.0, KILL),
    ("rewrite + fsync", "overwrite_fsync_mean", 1.2, POWER),
    ("`rm -r`", "rm_r", 0.6, KILL),
    ("stat warm", "stat_warm_mean", 1.3, READ),
    ("open + read + close warm", "open_read_close_warm_mean", 7.0, READ),
]
READ_ONLY = [
    ("read-only: open + read + close warm", "open_read_close_warm_mean", 1.3, READ),
    ("read-only: `grep -r` warm", "grep_r_warm", 1.0, READ),
]


def load(path):
    """Name -> (value, unit)."""
    found = {}
    with open(path) as file:
        for line in file:
            name, _, rest = line.partition(": ")
            parts = rest.split()
            if len(parts) >= 2:
                found[name] = float(parts[0]), parts[1]
    return found


def shown(value, unit):
    if unit == "ns":
        return f"{value / 1000:.1f} µs"
    if unit == "s":
        return f"{value:.3f} s"
    return f"{value:,.0f} {unit}"


def ratio(theirs, own, unit):
    return theirs / own if unit == "files/s" else own / theirs


def row(title, name, bar, survives, native, ours, floor):
    if name not in native or name not in ours:
        return f"| {title} | – | – | – | {bar} | not measured | – | {survives} |"
    (theirs, unit), (own, _) = native[name], ours[name]
    reached = ratio(theirs, own, unit)
    met = "yes" if reached <= bar else "**no**"
    least = f"{ratio(theirs, floor[name][0], unit):.2f}" if name in floor else "–"
    return (f"| {title} | {shown(theirs, unit)} | {shown(own, unit)} | {reached:.2f} | {bar} | {met} |"
            f" {least} | {survives} |")


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")),
                     "unknown processor")
    fuse = subprocess.run(["fusermount3", "--version"], capture_output=True, text=True).stdout.strip()
    return f"{os.cpu_count()} × {model}, Linux {platform.release()}, {fuse}"


def main(files, repetitions, directory):
    native, floor, ours, read_only, read_only_floor = (
        load(os.path.join(directory, f"{name}.txt"))
        for name in ("native", "floor", "itemfs", "readonly", "floor-readonly"))
    print(f"{files:,} files of 300 bytes, medians of {repetitions}; {machine()}.")
    print("\n| row | ext4 | itemfs | ratio | at most | met | floor | an acknowledged write survives |")
    print("|---|---|---|---|---|---|---|---|")
    for title, name, bar, survives in ROWS:
        print(row(title, name, bar, survives, native, ours, floor))
    for title, name, bar, survives in READ_ONLY:
        print(row(title, name, bar, survives, native, read_only, read_only_floor))
    print("\n\"Floor\" is the ratio of a filesystem that only answers out of memory, stores nothing and "
          "waits for no disk (`tools/bench/floor.c`), on this machine.")
    print("\next4 is the filesystem below: without fsync its own figures survive kill -9 of the "
          "writer, not a power failure.")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
