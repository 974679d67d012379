# SPDX-License-Identifier: MIT
"""Writes profiles.json: texts of AWS's config and credentials files, and what botocore reads in them.

usage: make_profiles.py >profiles.json
"""

import json
import os
import sys
import tempfile

import botocore.configloader
import botocore.exceptions

CONFIG, CREDENTIALS = "config", "credentials"


def read(file, text):
    """{"profile": {...}, "sso": {...}, "services": {...}}, or None where botocore refuses the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file")
        with open(path, "wb") as out:
            out.write(text.encode())
        try:
            if file == CREDENTIALS:
                return {"profile": botocore.configloader.raw_config_parse(path)}
            loaded = botocore.configloader.load_config(path)
        except botocore.exceptions.ConfigParseError:
            return None
    return {"profile": loaded["profiles"], "sso": loaded["sso_sessions"],
            "services": loaded["services"]}


def case(text, file=CONFIG, absent=()):
    sections = read(file, text)
    for name in absent:
        assert name not in sections["profile"], name
    made = {"file": file, "text": text, "absent": list(absent)}
    return made | ({"sections": sections} if sections is not None else {})


CASES = [
    case(""),
    case("\n\n# nothing\n ; here\n"),
    case("[default]\nregion = eu-west-1\noutput=json\n"),
    case("[default]\nregion: eu-west-1\n"),
    case("[default]\nREGION = eu-west-1\nOutPut = TEXT\n"),
    case("[default]\r\nregion = eu-west-1\r\n[profile b]\r\nregion = x\r\n"),
    case("[profile a]\nk = v\n[profile b]\nk = w\n", absent=["default", "profile a"]),
    case("[profile \"two words\"]\nk = v\n[profile 'it is']\nk = w\n"),
    case("[profile a\\ b]\nk = v\n[profile \"q\\\"x\"]\nk = w\n[profile \"b\\s\"]\nk = u\n"),
    case("[profile a b]\nk = v\n", absent=["a", "b", "a b"]),
    case("[profile \"a]\nk = v\n", absent=["a"]),
    case("[profile]\nk = v\n[profiles x]\nk = w\n", absent=["profile"]),
    case("[profile   spaced]\nk = v\n"),
    case("[ default ]\nk = v\n", absent=["default", " default "]),
    case("[other]\nk = v\n[preview]\n", absent=["other"]),
    case("[default]\nk = 1\n[profile default]\nk = 2\n"),
    case("[profile default]\nk = 1\n[default]\nj = 2\n"),
    case("[default]\nq = \"quoted\"\nr = 'single'\n"),
    case("[default]\nk = v # not a comment\nl = v;neither\nm = a = b : c\n"),
    case("[default]\n# comment\nk = v\n  # comment\n; comment\nl = w\n"),
    case("[default]\nk =\nl = \nm=\n"),
    case("[default]\nk = one\n  two\n  three\n"),
    case("[default]\nk = one\n\n  two\n\n\nl = x\n"),
    case("[default]\nk = one\n# comment\n  two\n"),
    case("[default]\n  k = one\n  l = two\n    goes on\n m = three\n"),
    case("  [default]\n  k = one\n[profile b]\n  k = two\n"),
    case("[default]\ns3 =\n  addressing_style = path\n  max = 2\nk = v\n"),
    case("[default]\ns3 =\n  A = b=c\n\n  # comment\n  Other=\nk = v\n"),
    case("[default]\ns3 =\n  a = 1\n  a = 2\n"),
    case("[default]\ns3 =\n  no equals sign\n"),
    case("[default]\ns3 =\n  colon : sign\n"),
    case("[services dev]\ndynamodb =\n  endpoint_url = http://localhost:8000\n"
         "sts =\n  endpoint_url = http://localhost:1\n[profile a]\nservices = dev\n"),
    case("[sso-session my]\nsso_region = us-east-1\nsso_start_url = https://x/start\n"
         "[profile a]\nsso_session = my\n", absent=["my"]),
    case("[sso-session \"my own\"]\nsso_region = us-east-1\n"),
    case("[DEFAULT]\nk = shared\n[default]\nl = own\n[profile b]\nk = own\n", absent=["DEFAULT"]),
    case("[DEFAULT]\nk = 1\n[default]\n[DEFAULT]\nl = 2\n"),
    case("[default] # comment\nk = v\n"),
    case("[default]]\nk = v\n", absent=["default"]),
    case("[a]b]\nk = v\n", file=CREDENTIALS),
    case("[default]\nk = v\n[default]\nl = w\n"),
    case("[default]\nk = v\nk = w\n"),
    case("[default]\nk = v\nK = w\n"),
    case("k = v\n"),
    case("[default]\nnothing\n"),
    case("[default]\n= v\n"),
    case("[default\nk = v\n"),
    case("[]\nk = v\n"),
    case("[default]\n[]\n"),
    case("[default]\n[x = y\n"),
    case("[default]\nk = größe 日本\n[profile größe]\nk = v\n"),
    case("[default]\nk = v", file=CONFIG),
    case("[default]\naws_access_key_id = A\naws_secret_access_key = s/+=\n[dev]\n"
         "aws_access_key_id=B\n", file=CREDENTIALS),
    case("[profile a]\nk = v\n[a]\nk = w\n", file=CREDENTIALS),
    case("[a b]\nk = v\n", file=CREDENTIALS),
    case("[DEFAULT]\nk = v\n[a]\nj = w\n", file=CREDENTIALS),
]

json.dump(CASES, sys.stdout, indent=1, ensure_ascii=False)
print()
