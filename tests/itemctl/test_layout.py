# SPDX-License-Identifier: MIT
"""DynamoDB's own export to S3, in a local folder: written so that Python's gzip, json and hashlib
agree with every manifest, and read as AWS documents it, made here by hand."""

import base64
import gzip
import hashlib
import json
import os
import re
import unittest

from ctl import FAILED, USAGE, typed
from test_transfer import Transfer, many, record_of, size_of

RICH = [
    r'{"":{"S":""},"b":{"B":"AAH/"},"bs":{"BS":["","AA=="]},"id":{"S":"a/\u0000\ud800"}}',
    r'{"id":{"S":"e"},"l":{"L":[]},"m":{"M":{"x":{"L":[{"NULL":true},{"BOOL":false}]}}}}',
    r'{"id":{"S":"n"},"n":{"N":"12345678901234567890123456789012345678"},"ns":{"NS":["-1E-3","1"]}}',
    r'{"id":{"S":"é𝄞"},"ss":{"SS":["","é"]},"ключ":{"S":"ключ"}}',
]
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"


def md5_of(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def wrapped(items):
    return "".join('{"Item":' + item + "}\n" for item in items).encode("utf-8", "surrogatepass")


class LayoutTest(Transfer):
    def exports(self, folder):
        return sorted(os.listdir(self.path(f"{folder}/AWSDynamoDB")))

    def json_of(self, path):
        return json.loads(self.read(path))

    def listing(self, root):
        """What manifest-files.json tells, a line a file."""
        return [json.loads(line) for line in self.read(f"{root}/manifest-files.json").splitlines()]

    def data(self, root):
        """The text of each data file, in the manifest's order."""
        return [gzip.decompress(self.read(f"{root}/data/{os.path.basename(told['dataFileS3Key'])}"))
                for told in self.listing(root)]

    def written(self, folder="out"):
        """The directory of the only export in FOLDER."""
        [export] = self.exports(folder)
        return f"{folder}/AWSDynamoDB/{export}"


class Writing(LayoutTest):
    def test_as_documented(self):
        self.put("t", *RICH)
        self.assertEqual('{"TableName": "t", "ItemCount": 4}\n',
                         self.out("export", "t", "out", "--s3-layout"))
        root = self.written()
        export = os.path.basename(root)
        self.assertRegex(export, r"^\d{14}-[0-9a-f]{8}$")
        self.assertEqual(["_started", "data", "manifest-files.checksum", "manifest-files.json",
                          "manifest-files.md5", "manifest-summary.checksum",
                          "manifest-summary.json", "manifest-summary.md5"],
                         sorted(os.listdir(self.path(root))))
        self.assertEqual(["00000001.json.gz"], os.listdir(self.path(root + "/data")))
        packed = self.read(root + "/data/00000001.json.gz")
        self.assertEqual(wrapped(RICH), gzip.decompress(packed))
        digest = hashlib.md5(packed).digest()
        self.assertEqual([{
            "itemCount": 4, "md5Checksum": md5_of(packed),
            "etag": hashlib.md5(digest).hexdigest() + "-1",
            "dataFileS3Key": f"AWSDynamoDB/{export}/data/00000001.json.gz"}], self.listing(root))
        summary = self.json_of(root + "/manifest-summary.json")
        for name in ("startTime", "endTime", "exportTime"):
            self.assertRegex(summary.pop(name), TIME)
        table = "arn:aws:dynamodb:local:000000000000:table/t"
        self.assertEqual({
            "version": "2020-06-30", "exportArn": f"{table}/export/{export}", "tableArn": table,
            "tableId": None, "s3Bucket": None, "s3Prefix": None, "s3SseAlgorithm": None,
            "s3SseKmsKeyId": None, "billedSizeBytes": 0, "itemCount": 4,
            "manifestFilesS3Key": f"AWSDynamoDB/{export}/manifest-files.json",
            "outputFormat": "DYNAMODB_JSON"}, summary)
        for name in ("manifest-files", "manifest-summary"):
            want = md5_of(self.read(f"{root}/{name}.json")).encode()
            self.assertEqual([want, want], [self.read(f"{root}/{name}.{suffix}")
                                            for suffix in ("checksum", "md5")])
        self.assertEqual([], self.side_files())

    def test_comes_back(self):
        self.put("t", *RICH)
        self.out("export", "t", "out", "--s3-layout")
        self.out("create", "u", "--key", "id")
        self.assertEqual('{"TableName": "u", "ItemCount": 4}\n', self.out("import", "u", "out"))
        self.assertEqual(RICH, self.lines("export", "u", "-"))
        self.assertEqual([], self.side_files())

    def test_no_items(self):
        self.out("export", "t", "out", "--s3-layout")
        self.assertEqual([b""], self.data(self.written()))
        self.assertEqual('{"TableName": "t", "ItemCount": 0}\n', self.out("import", "t", "out"))

    def test_second_export_lies_beside(self):
        self.put("t", *many(2))
        self.out("export", "t", "out", "--s3-layout")
        self.out("export", "t", "out/", "--s3-layout")
        both = self.exports("out")
        self.assertEqual(2, len(both))
        self.assertEqual("out: it holds 2 exports: name the directory of one",
                         self.error(FAILED, "import", "t", "out"))
        for export in both:
            self.out("import", "t", f"out/AWSDynamoDB/{export}")

    def test_what_cannot_be(self):
        self.write("file", "")
        self.assertEqual("file: with --s3-layout it must be a directory",
                         self.error(FAILED, "export", "t", "file", "--s3-layout"))
        self.assertIn("makes a directory", self.error(USAGE, "export", "t", "-", "--s3-layout"))
        self.assertIn("No such file", self.error(FAILED, "export", "t", "no/out", "--s3-layout"))
        self.assertIn("in one piece, not in 2 segments",
                      self.error(FAILED, "export", "t", "out", "--segments", "2"))
        for count in ("0", "65", "x", "1.5"):
            self.assertIn("--segments is a number from 1 to 64",
                          self.error(USAGE, "export", "t", "out", "--segments", count))

    def killed_in_the_middle(self):
        """Leaves an export of which a data file is whole; how many items that holds."""
        record = self.path("out.partial-position")
        self.kill_while(lambda: size_of(record), "export", "t", "out", "--s3-layout")
        self.assertTrue(size_of(record), "the export was done before it could be killed")
        return record_of(record)[2]

    def test_goes_on(self):
        items = many(36000, 2000)
        self.out("import", "t", "-", input="\n".join(items))
        done = self.killed_in_the_middle()
        self.assertFalse(os.path.exists(self.path("out")))
        partial = "out.partial/AWSDynamoDB"
        [export] = os.listdir(self.path(partial))
        whole = os.stat(self.path(f"{partial}/{export}/data/00000001.json.gz"))
        err = self.run_ctl("export", "t", "out", "--s3-layout")[1]
        self.assertEqual(f"itemctl: going on behind the {done} items that an earlier export wrote\n",
                         err)
        root = self.written()
        self.assertEqual(export, os.path.basename(root))
        now = os.stat(self.path(root + "/data/00000001.json.gz"))
        self.assertEqual((whole.st_ino, whole.st_mtime_ns), (now.st_ino, now.st_mtime_ns))
        texts = self.data(root)
        self.assertEqual(3, len(texts))
        self.assertEqual(done, texts[0].count(b"\n"))
        self.assertEqual(wrapped(items), b"".join(texts))
        self.assertEqual([text.count(b"\n") for text in texts],
                         [told["itemCount"] for told in self.listing(root)])
        for told in self.listing(root):
            packed = self.read(f"{root}/data/{os.path.basename(told['dataFileS3Key'])}")
            self.assertEqual(md5_of(packed), told["md5Checksum"])
        self.assertEqual([], self.side_files())

    def test_begins_anew_when_the_store_changed(self):
        items = many(36000, 2000)
        self.out("import", "t", "-", input="\n".join(items))
        self.killed_in_the_middle()
        self.out("delete", "t", "-k", "0000000")
        self.assertIn("beginning anew", self.run_ctl("export", "t", "out", "--s3-layout")[1])
        self.assertEqual(wrapped(items[1:]), b"".join(self.data(self.written())))
        self.assertEqual([], self.side_files())


class Reading(LayoutTest):
    ID = "01693685827463-2d8752fd"
    ROOT = f"in/AWSDynamoDB/{ID}"

    def make(self, files, told=None, summary=None, sums=True):
        """An export by hand: FILES are (name, compressed bytes, items). TOLD changes lines of
        manifest-files.json, SUMMARY members of the other."""
        os.makedirs(self.path(self.ROOT + "/data"), exist_ok=True)
        lines = [{"itemCount": count, "md5Checksum": md5_of(packed),
                  "etag": hashlib.md5(packed).hexdigest() + "-1",
                  "dataFileS3Key": f"2020-Nov/AWSDynamoDB/{self.ID}/data/{name}"}
                 for name, packed, count in files]
        for name, packed, _ in files:
            self.write(f"{self.ROOT}/data/{name}", packed)
        table = "arn:aws:dynamodb:us-east-1:123456789012:table/ProductCatalog"
        about = {
            "version": "2020-06-30", "exportArn": f"{table}/export/{self.ID}",
            "startTime": "2020-11-04T07:28:34.028Z", "endTime": "2020-11-04T07:33:43.897Z",
            "tableArn": table, "tableId": "12345a12-abcd-123a-ab12-1234abc12345",
            "exportTime": "2020-11-04T07:28:34.028Z", "s3Bucket": "ddb-productcatalog-export",
            "s3Prefix": "2020-Nov", "s3SseAlgorithm": "AES256", "s3SseKmsKeyId": None,
            "manifestFilesS3Key": f"AWSDynamoDB/{self.ID}/manifest-files.json",
            "billedSizeBytes": 0, "itemCount": sum(count for _, _, count in files),
            "outputFormat": "DYNAMODB_JSON", "exportType": "FULL_EXPORT", **(summary or {})}
        self.manifest("manifest-files", "".join(json.dumps(line) + "\n"
                                                for line in (told(lines) if told else lines)), sums)
        self.manifest("manifest-summary", json.dumps(about, indent=1), sums)
        self.write(self.ROOT + "/_started", "")

    def manifest(self, name, text, sums=True):
        self.write(f"{self.ROOT}/{name}.json", text)
        if sums:
            self.write(f"{self.ROOT}/{name}.checksum", md5_of(text.encode()) + "\n")

    def file(self, name, items):
        return name, gzip.compress(wrapped(items)), len(items)

    def refused(self, *more):
        """The sentences of an import that fails: the last one is the reason."""
        err = self.run_ctl("import", "t", "in", *more, status=FAILED)[1]
        return [line.removeprefix("itemctl: ") for line in err.splitlines()]

    def assertRefused(self, want):
        """Before any item was put."""
        self.assertEqual([want], self.refused())
        self.assertEqual(0, self.count("t"))

    def test_as_documented(self):
        items = many(50) + RICH
        two = gzip.compress(wrapped(items[30:40])) + gzip.compress(wrapped(items[40:]))
        self.make([self.file("asdl123dsdfsdf.json.gz", items[:30]), self.file("empty.json.gz", []),
                   ("members.json.gz", two, len(items) - 30)])
        for place in ("in", "in/AWSDynamoDB", self.ROOT):
            self.out("import", "t", place)
            self.assertEqual(items, self.lines("export", "t", "-"))
            self.out("drop", "t", "--force")
            self.out("create", "t", "--key", "id")

    def test_loose_forms(self):
        text = b'\r\n {"Item": {"n": {"N": "1"}, "id": {"S": "a"}}} \r\n\n'
        self.make([("x.gz", gzip.compress(text), 1)], sums=False,
                  told=lambda lines: [{"dataFileS3Key": lines[0]["dataFileS3Key"]}])
        self.out("import", "t", "in")
        self.assertEqual([typed(id={"S": "a"}, n={"N": "1"})], self.lines("export", "t", "-"))

    def test_bad_lines(self):
        good = many(6)
        for bad, reason in (
                ('{"Item":{"id":{"N":"1"}}}', 'the key attribute "id" must be of type S, not N'),
                ('{"id":{"S":"x"}}', 'the line is no {"Item": {..}}'),
                ('{"Item":{"id":{"S":"x"}},"Keys":{}}', 'the line is no {"Item": {..}}'),
                ('{"Item":{"id":{"S":"x"}}', None), ("{", None), ('{"Item":{}}', None)):
            with self.subTest(bad):
                text = wrapped(good[3:5]) + bad.encode() + b"\n" + wrapped(good[5:])
                self.make([self.file("a.json.gz", good[:3]),
                           ("b.json.gz", gzip.compress(text), 4)])
                told = self.refused()
                self.assertEqual(["5 items before the bad one are in the table"], told[:-1])
                self.assertRegex(told[-1], rf"^{re.escape(self.ROOT)}/data/b\.json\.gz:3: .")
                if reason:
                    self.assertTrue(told[-1].endswith(":3: " + reason), told[-1])
                self.assertEqual(good[:5], self.lines("export", "t", "-"))

    def damaged(self, packed):
        """The reason that is given, when all lines before the damage are stored."""
        self.out("drop", "t", "--force")
        self.out("create", "t", "--key", "id")
        self.make([self.file("a.json.gz", many(2)), ("b.json.gz", packed, 2000)])
        told = self.refused()
        place = re.search(r"/data/b\.json\.gz:(\d+): (.*)", told[-1])
        self.assertEqual([f"{1 + int(place[1])} items before the bad one are in the table"],
                         told[:-1])
        stored = self.lines("export", "t", "-")
        self.assertEqual((many(2) + self.noise)[:1 + int(place[1])], stored)
        return place[2]

    def test_damaged_gzip(self):
        self.noise = [typed(id={"S": f"1{n:06}"}, x={"S": hashlib.md5(b"%d" % n).hexdigest()})
                      for n in range(2000)]
        whole = gzip.compress(wrapped(self.noise))
        for place in (len(whole) // 2, len(whole) - 1):
            self.assertEqual("the gzip data is cut short", self.damaged(whole[:place]))
        self.assertEqual(2002, self.count("t"))
        crc = bytearray(whole)
        crc[-8] ^= 1
        self.assertEqual("the gzip data is damaged: incorrect data check", self.damaged(bytes(crc)))
        self.assertEqual(2002, self.count("t"))
        self.make([self.file("a.json.gz", []), ("b.json.gz", b'{"Item":{"id":{"S":"x"}}}', 1)])
        self.assertEqual([f"{self.ROOT}/data/b.json.gz:1: the gzip data is damaged: incorrect "
                          "header check"], self.refused())

    def test_checksums_that_differ(self):
        root = self.path(self.ROOT)
        self.make([self.file("a.json.gz", many(2)), self.file("b.json.gz", many(2, start=2))])
        self.write(self.ROOT + "/data/b.json.gz", gzip.compress(wrapped(many(2, start=4))))
        self.assertRefused(f"{self.ROOT}/data/b.json.gz: its MD5 is not the md5Checksum of "
                           "manifest-files.json")
        os.unlink(root + "/data/b.json.gz")
        for name in ("manifest-files", "manifest-summary"):
            for suffix in ("checksum", "md5"):
                self.make([self.file("a.json.gz", many(2))])
                self.write(f"{self.ROOT}/{name}.{suffix}", md5_of(b"another"))
                self.assertRefused(f"{self.ROOT}/{name}.json: its MD5 is not that in "
                                   f"{name}.{suffix}")
                os.unlink(f"{root}/{name}.{suffix}")

    def test_manifest_that_does_not_fit(self):
        files = [self.file("a.json.gz", many(2)), self.file("b.json.gz", many(3, start=2))]
        self.make(files, summary={"itemCount": 6})
        self.assertRefused(f"{self.ROOT}: manifest-summary.json tells of 6 items, "
                           "manifest-files.json of 5")
        self.make(files, told=lambda lines: lines[:1], summary={"itemCount": 2})
        self.assertRefused(f"{self.ROOT}/data/b.json.gz: manifest-files.json does not tell of it")
        self.make(files, told=lambda lines: lines + lines[:1], summary={"itemCount": 7})
        self.assertRefused(f"{self.ROOT}/data/a.json.gz: manifest-files.json tells of it twice")
        self.make(files)
        os.unlink(self.path(self.ROOT + "/data/b.json.gz"))
        self.assertRefused(f"{self.ROOT}/manifest-files.json:2: {self.ROOT}/data/b.json.gz: "
                           "No such file or directory")
        self.make(files, told=lambda lines: [{**lines[0], "dataFileS3Key": "../.."}] + lines[1:])
        self.assertRefused(f'{self.ROOT}/manifest-files.json:1: the dataFileS3Key "../.." names no '
                           "file")
        self.make(files, told=lambda lines: [{"itemCount": 2}] + lines[1:])
        self.assertRefused(f"{self.ROOT}/manifest-files.json:1: it names no dataFileS3Key")

    def test_file_with_other_items_than_told(self):
        self.make([self.file("a.json.gz", many(2)), ("b.json.gz", self.file("", many(3, start=2))[1],
                                                     4)])
        self.assertEqual([f"{self.ROOT}/data/b.json.gz: it ends behind 3 items, and has 4 by "
                          "manifest-files.json"], self.refused())
        self.assertEqual(5, self.count("t"))

    def test_exports_of_other_kinds(self):
        files = [self.file("a.json.gz", many(2))]
        self.make(files, summary={"outputFormat": "ION"})
        self.assertRefused(f"{self.ROOT}/manifest-summary.json: its outputFormat is ION, not "
                           "DYNAMODB_JSON")
        self.make(files, summary={"exportType": "INCREMENTAL_EXPORT"})
        self.assertRefused(f"{self.ROOT}/manifest-summary.json: it is an INCREMENTAL_EXPORT: only "
                           "full exports can be imported")
        os.unlink(self.path(self.ROOT + "/manifest-summary.json"))
        self.assertRefused("in: no export of DynamoDB: there is no manifest-summary.json")
        self.make(files)
        os.unlink(self.path(self.ROOT + "/manifest-files.json"))
        self.assertRefused(f"{self.ROOT}/manifest-files.json: No such file or directory")

    def recorded(self):
        """Items that are done as the position of an import tells; 0: there is none."""
        folder = os.path.join(self.state, "itemfs", "import")
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            return record_of(os.path.join(folder, name))[2]
        return 0

    def test_goes_on(self):
        items = many(60000)
        self.make([self.file("a.json.gz", items[:1000]), self.file("b.json.gz", items[1000:30000]),
                   self.file("c.json.gz", items[30000:])])
        self.kill_while(lambda: self.recorded() > 1000, "import", "t", "in")
        done = self.recorded()
        self.assertGreater(done, 1000)
        self.assertLess(done, 60000)
        # An item of those that are done is gone: going on does not bring it back.
        self.out("delete", "t", "-k", "0000000")
        out, err = self.run_ctl("import", "t", "in")
        self.assertRegex(err, rf"^itemctl: going on behind {done} items of in; ")
        self.assertEqual('{"TableName": "t", "ItemCount": 60000}\n', out)
        self.assertEqual(items[1:], self.lines("scan", "t"))
        self.assertEqual([], self.side_files())

    def test_on_a_terminal(self):
        self.make([self.file("a.json.gz", many(3))])
        self.assertEqual("3 items imported\n", self.on_terminal("import", "t", "in"))
        self.assertEqual("3 items exported\n", self.on_terminal("export", "t", "out", "--s3-layout"))


if __name__ == "__main__":
    unittest.main()
