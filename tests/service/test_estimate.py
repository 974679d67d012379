# SPDX-License-Identifier: MIT
"""itemctl estimate says beforehand what the engine says afterwards."""

import contextlib
import json
import math
import os
import pty
import re
import subprocess
import unittest

from capacity import CapacityTest
from engines import for_engine  # pylint: disable=wrong-import-order
from harness import ITEMCTL  # pylint: disable=wrong-import-order


class Estimates(CapacityTest):
    """On an engine that counts the bytes of its tables."""

    def test_reading(self):
        self.make()
        for number in range(40):
            self.put(id={"S": f"k{number}"}, pad={"S": "x" * 3000})
        size = self.boto.describe_table(TableName=self.table)["Table"]["TableSizeBytes"]
        self.assertGreater(size, 40 * 3000)
        units = math.ceil(size / 4096)
        got = self.estimate(self.table)
        once = {"ReadUnits": units, "EventuallyConsistentReadUnits": units / 2, "Requests": 1}
        self.assertEqual({"TableName": self.table, "Backend": "dynamodb", "Kind": "dynamodb",
                          "Consumes": True, "ItemCount": 40, "TableSizeBytes": size,
                          "Listing": once, "Backup": once,
                          "BackupBeyondCache": {"ReadUnitsAtLeast": units + 40,
                                                "ReadUnitsUpTo": 2 * units + 40},
                          "Cache": {"Seconds": 1, "Bytes": 32 << 20}}, got)
        with self.recorder() as server:
            mount = self.mounted(server)
            self.sh("ls > /dev/null", cwd=os.path.join(mount.point, self.table))
            told = server.units(self.table, "Scan")
            self.assertTrue(units <= sum(told) <= units + len(told), told)
            mount.unmount()

    def test_limits(self):
        self.boto.create_table(TableName=self.table,
                               KeySchema=[{"AttributeName": "id", "KeyType": "HASH"},
                                          {"AttributeName": "day", "KeyType": "RANGE"}],
                               AttributeDefinitions=[
                                   {"AttributeName": "id", "AttributeType": "S"},
                                   {"AttributeName": "day", "AttributeType": "N"}],
                               ProvisionedThroughput={"ReadCapacityUnits": 5,
                                                      "WriteCapacityUnits": 8})
        self.wait_active(self.table)
        for number in range(30):
            self.put(id={"S": "a"}, day={"N": str(number)}, pad={"S": "x" * 4000})
        file = os.path.join(self.place, "items")
        self.save(file, "".join(json.dumps({"id": {"S": "b"}, "day": {"N": str(number)},
                                            "pad": {"S": "x" * 3000}}) + "\n"
                                for number in range(10)))
        got = self.estimate(self.table, "--import", file)
        units = got["Listing"]["ReadUnits"]
        self.assertEqual({"ReadCapacityUnits": 5, "WriteCapacityUnits": 8},
                         got["ProvisionedThroughput"])
        self.assertEqual(units / 5, got["Listing"]["Seconds"])
        self.assertEqual({"ReadUnitsAtLeast": 2 * units, "ReadUnitsUpTo": 2 * units + 30,
                          "SecondsAtLeast": 2 * units / 5}, got["Backup"])
        self.assertEqual({"File": file, "ItemCount": 10, "WriteUnits": 30, "Requests": 1,
                          "Seconds": 30 / 8}, got["Import"])
        source = os.path.join(self.place, f"{self.table}.conf")
        self.save(source, "[backend b]\ntype = dynamodb\nregion = us-east-1\nread_units = 100\n"
                          f"write_units = 7.5\n[table {self.table}]\nread_units = 2.5\n")
        got = self.estimate(self.table, "--import", file, source=source)
        self.assertEqual({"ReadUnits": 2.5, "WriteUnits": 7.5}, got["Budget"])
        self.assertEqual((units / 2.5, math.ceil(units / 2.5)),
                         (got["Listing"]["Seconds"], got["Listing"]["Requests"]))
        self.assertEqual((30, 5, 4), (got["Import"]["WriteUnits"], got["Import"]["Requests"],
                                      got["Import"]["Seconds"]))

    def test_for_people(self):
        self.make()
        self.put(id={"S": "a"}, pad={"S": "x" * 9000})
        file = os.path.join(self.place, f"{self.table}.items")
        self.save(file, json.dumps({"id": {"S": "b"}, "pad": {"S": "x" * 1500}}))
        source = os.path.join(self.place, f"{self.table}.conf")
        self.save(source, "[backend b]\ntype = dynamodb\nregion = us-east-1\nread_units = 0.01\n"
                          "write_units = 4\n")
        self.assertEqual([
            ("Table", f"{self.table} (b)"),
            ("Size", "9006 bytes in 1 item, as last counted"),
            ("Throughput", "on demand"),
            ("Budget", "0.01 read, 4 write units a second"),
            ("Listing", "3 read units (1.5 where they need not be consistent), 1 request, 5 min"),
            ("Backup", "the same, once, within cache_ttl (1 s) and cache_size (33554432 bytes)"),
            ("Beyond them", "6 to 7 read units, 10 min at least"),
            ("Import", "2 write units for 1 item, 1 request, 0.5 s")],
            [tuple(re.split("  +", line, maxsplit=1)) for line in
             self.on_terminal("-s", source, "estimate", self.table, "--import", file)])

    def on_terminal(self, *arguments):
        """Lines that a person sees."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        subprocess.run(["stty", "cols", "200", "-onlcr"], stdin=slave, check=True)
        subprocess.run([ITEMCTL, *arguments], stdin=slave, stdout=slave, env=self.environment(),
                       check=True)
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):
            while piece := os.read(master, 65536):
                seen += piece
        return seen.decode().splitlines()

    def test_all_tables(self):
        self.make()
        tables = self.estimate()["Tables"]
        self.assertIn(self.table, [table["TableName"] for table in tables])


class Imports(CapacityTest):
    def rich_lines(self):
        """Items whose sizes lie on both sides of a unit's end, with all that counts in an item."""
        # dynalite counts characters, not bytes.
        name, value = ("u", "oo") if self.engine.name == "dynalite" else ("ü", "ö")
        for number, size in (("0", 1), ("7", 2), ("-12", 3), ("12345", 4), ("1000", 2), ("-1.5", 4),
                             ("1" * 38, 20), ("0.001", 2)):
            for over in (0, 1):
                pad = 1024 - len(f"idnpad{name}".encode()) - 3 - size - len(value.encode()) + over
                yield json.dumps({"id": {"S": f"{len(number):02}{over}"}, "n": {"N": number},
                                  name: {"S": value}, "pad": {"S": "x" * pad}}), 1 + over
        nested = {"id": {"S": "nest"}, "m": {"M": {"ab": {"L": [{"N": "1"}, {"BOOL": True}]},
                                                   "c": {"NULL": True}}},
                  "ss": {"SS": ["a", "bc"]}, "bs": {"BS": ["AA==", "AAA="]},
                  "ns": {"NS": ["1", "10"]},
                  "b": {"B": "AAAA"}}
        size = ((2 + 4) + (1 + 3 + (2 + 1 + (3 + 2 + 2 + 1)) + (1 + 1 + 1)) + (2 + 3) + (2 + 3)
                + (2 + 4) + (1 + 3))
        for over in (0, 1):
            yield json.dumps({**nested, "id": {"S": f"nes{over}"},
                              "p": {"S": "x" * (2048 - size - 1 + over)}}), 2 + over

    def test_import_by_the_byte(self):
        self.make()
        file = os.path.join(self.place, f"{self.table}.items")
        unique, wanted = [], 0
        for place, (line, units) in enumerate(self.rich_lines()):
            item = json.loads(line)
            item["id"]["S"] = f"{place:0{len(item['id']['S'])}}"
            unique.append(json.dumps(item))
            wanted += units
        self.save(file, "\n".join(unique))
        got = self.estimate(self.table, "--import", file)["Import"]
        self.assertEqual({"File": file, "ItemCount": len(unique), "WriteUnits": wanted,
                          "Requests": 1}, got)
        with self.recorder() as server:
            self.through(server, "import", self.table, file)
            self.assertEqual([wanted], server.units(self.table))

    def test_import_errors(self):
        self.make()
        for text, message in (('{"id":{"S":"a"}}\n{"id":{"N":"1"}}\n', ":2: "),
                              ('{"id":{"S":"a"}}\n\n{"id":', ":3: "),
                              (json.dumps({"id": {"S": "a"}, "pad": {"S": "x" * 410_000}}),
                               ":1: the item has 410006 bytes, and the service takes 409600")):
            failed = self.itemctl("estimate", self.table, "--import", "-", input=text, status=1)
            self.assertIn("standard input" + message, failed.stderr)
        self.assertIn("No such file", self.itemctl("estimate", self.table, "--import", "/none",
                                                   status=1).stderr)
        self.itemctl("estimate", self.table + "-none", status=3)
        self.assertIn("--import needs", self.itemctl("estimate", "--import", "-", status=2).stderr)
        self.assertEqual(0, self.boto.scan(TableName=self.table)["Count"])


class Indexes(CapacityTest):
    """On an engine that counts the writes of indexes."""

    def test_import_into_indexes(self):
        def index(name, key, projection, names=None):
            more = {"NonKeyAttributes": names} if names else {}
            return {"IndexName": name, "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": projection, **more}}
        self.boto.create_table(
            TableName=self.table, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"}
                                  for name in ("id", "a", "k", "i")],
            GlobalSecondaryIndexes=[index("all", "a", "ALL"), index("keys", "k", "KEYS_ONLY"),
                                    index("some", "i", "INCLUDE", ["half"])])
        file = os.path.join(self.place, f"{self.table}.items")
        items = [{"id": {"S": f"{number:03}"}, "pad": {"S": "x" * 1200}, "half": {"S": "y" * 1500},
                  **{name: {"S": "z"} for place, name in enumerate("aki") if number >> place & 1}}
                 for number in range(8)]
        self.save(file, "\n".join(json.dumps(item) for item in items))
        got = self.estimate(self.table, "--import", file)["Import"]
        self.assertEqual({"File": file, "ItemCount": 8, "WriteUnits": 8 * 3 + 4 * (3 + 1 + 2),
                          "IndexWriteUnits": 4 * (3 + 1 + 2), "Requests": 1}, got)
        with self.recorder() as server:
            self.through(server, "import", self.table, file)
            self.assertEqual([got["WriteUnits"]], server.units(self.table))


# Engines whose units are those of DynamoDB; moto tells the same of everything.
for NAME, CASES in {"dynoxide": (Estimates, Imports, Indexes), "dynalite": (Imports,)}.items():
    for CASE in CASES:
        MADE = for_engine(CASE, NAME)
        globals()[MADE.__name__] = MADE
del Estimates, Imports, Indexes, CapacityTest, CASES, CASE, MADE


if __name__ == "__main__":
    unittest.main()
