# SPDX-License-Identifier: MIT
"""What serves credentials to containers and instances."""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import time

import chain
from chain import MARK, NO_JUDGE, ChainTest, Server, metadata_keys, token

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, UP_AND_RUNNING = 0x8916, 0x8914, 0x41


class Container(ChainTest):
    def setUp(self):
        super().setUp()
        self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = self.server.url + "/role?id=1"
        self.server.routes["GET", "/role"] = metadata_keys("AKC", 4e9)

    def test_full_uri(self):
        self.assertEqual(4000000000, self.agree("container", "AKC")["expires"])
        for request in self.server.requests:
            self.assertEqual(("id=1", None, "application/json"),
                             (request.query, request.headers["Authorization"],
                              request.headers["Accept"]))

    def test_tokens(self):
        self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = token("variable")
        self.agree("container", "AKC")
        self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self.write("token", token("file"))
        self.agree("container", "AKC")
        names = ["variable", "file"] if NO_JUDGE else ["variable", "variable", "file", "file"]
        self.assertEqual([token(name) for name in names],
                         [request.headers["Authorization"] for request in self.server.requests])
        self.write("token", token("file") + "\n")
        self.assertKeys("AKC", self.found()[1])
        self.assertEqual(token("file"), self.server.requests[-1].headers["Authorization"])

    def test_bad_tokens(self):
        self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self.path("token")
        self.refuse("EACCES", r"^credentials of container: .*/token: No such file or directory$",
                    "FileNotFoundError")
        self.write("token", f"{MARK}\r\nX-Evil: 1")
        self.refuse("EACCES", "^credentials of container: the authorization token has more than one ",
                    "ValueError")
        self.write("token", "\n")
        self.assertIn("/token: is empty", self.error()[1])
        self.assertEqual([], self.server.requests)

    def test_token_is_read_anew(self):
        self.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = self.write("token", token("1"))
        self.server.routes["GET", "/role"] = metadata_keys("AKC", time.time() + 3600)
        with self.stepping("open", "get", "pause", "+3000", "get") as (lines, go_on):
            lines(2)
            self.write("token", token("2"))
            go_on()
            lines(1)
        self.assertEqual([token("1"), token("2")],
                         [request.headers["Authorization"] for request in self.server.requests])

    def test_hosts(self):
        """The token goes nowhere but to this machine and its surroundings."""
        for url in ("http://example.com/x", "http://169.254.170.3/", "http://10.0.0.1/",
                    "http://127.0.0.1.example.com/", "http://localhost.example.com/",
                    "http://127.0.0.1@example.com/", "http://[::2]/", "http://169.254.170.2.x/",
                    "ftp://localhost/", "localhost", "http://", "http://exam\nple/",
                    "http://example.com\\@localhost/", "http://example.com?@localhost/",
                    "http://example.com#@localhost/", "http://localhost:80@example.com/",
                    "http://[::1]@example.com/", "http://[::1].example.com/", "http://[::1",
                    "http://[::1/]/"):
            self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url
            code, text = self.error()
            self.assertEqual("EINVAL", code, url)
            self.assertRegex(text, "^AWS_CONTAINER_CREDENTIALS_FULL_URI ")
        port = self.server.http.server_port
        for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"127.0.0.1:{port}"):
            self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"http://{host}/role"
            self.assertKeys("AKC", self.found()[1])
        for url in ("https://127.0.0.1:1/", "http://127.1.2.3:1/", "http://[::1]:1/"):
            self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url
            self.assertEqual("EHOSTUNREACH", self.error()[0], url)

    def test_relative_uri(self):
        self.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = "@example.com/"
        self.assertEqual(("EINVAL", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI must begin with /"),
                         self.error())
        self.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] = ""
        self.assertKeys("AKC", self.found()[1])

    def test_trouble(self):
        self.server.routes["GET", "/role"] = [(500, ""), (429, ""), metadata_keys("AKC")]
        self.agree("container", "AKC")
        self.server.routes["GET", "/role"] = 503, ""
        self.server.requests.clear()
        self.assertEqual(("EIO", "credentials of container: the answer is HTTP 503"), self.error())
        self.assertEqual(3, len(self.server.requests))
        self.server.routes["GET", "/role"] = 404, MARK
        self.refuse("EACCES", "^credentials of container: the answer is HTTP 404$",
                    "CredentialRetrievalError")
        self.server.routes["GET", "/role"] = MARK
        self.refuse("EIO", "^credentials of container: the answer is no JSON: line 1, column 1: ",
                    "CredentialRetrievalError")

    def test_too_slow(self):
        self.server.routes["GET", "/role"] = lambda request: time.sleep(2.3) or "{}"
        began = time.monotonic()
        self.assertEqual("ETIMEDOUT", self.error()[0])
        self.assertGreater(time.monotonic() - began, 7)


class Instance(ChainTest):
    ROLE = "/latest/meta-data/iam/security-credentials/"

    def test_keys(self):
        expires = int(time.time() + 6 * 3600)
        self.server.serve_imds(metadata_keys("AKI", expires))
        self.assertEqual(expires, self.agree("instance metadata", "AKI")["expires"])
        self.server.serve_imds(metadata_keys("AKI", expires), role="role\n")
        self.server.routes["GET", self.ROLE + "role"] = self.server.routes.pop(
            ("GET", self.ROLE + "role\n"))
        self.assertKeys("AKI", self.found()[1])

    def test_disabled(self):
        self.server.serve_imds(metadata_keys("AKI"))
        for value in ("true", "True"):
            self.env["AWS_EC2_METADATA_DISABLED"] = value
            self.refuse("EACCES", "^there are no credentials: ", None)
        self.assertEqual([], self.server.requests)
        self.env["AWS_EC2_METADATA_DISABLED"] = "false"
        self.agree("instance metadata", "AKI")

    def test_nothing_there(self):
        self.refuse("EACCES", "^there are no credentials: none in the environment, .* metadata "
                    r"\(credentials of instance metadata: /latest/api/token gives HTTP 404\)$", None)
        self.server.serve_imds(metadata_keys("AKI"))
        self.server.routes["GET", self.ROLE] = 404, ""
        self.refuse("EACCES", r"security-credentials/ gives HTTP 404\)$", None)
        self.server.routes["GET", self.ROLE] = ""
        self.refuse("EACCES", r"the answer to .*/security-credentials/ is empty\)$", None)
        self.server.routes["GET", self.ROLE] = "two\nroles"
        self.assertIn("security-credentials/ is not one word)", self.error()[1])
        self.server.routes["PUT", "/latest/api/token"] = f"{MARK}\r\nX-Evil: 1"
        self.assertIn("the answer to /latest/api/token is not one word)", self.error()[1])
        self.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
        self.refuse("EACCES", "^there are no credentials: ", None)

    def test_role_that_gives_nothing(self):
        made = json.loads(metadata_keys("AKI"))
        for answer, message in (
                (json.dumps({"Code": "AssumeRoleUnauthorizedAccess", "Message": "x"}),
                 "the role's credentials are not given: AssumeRoleUnauthorizedAccess)"),
                (json.dumps(made | {"Code": "Failed"}),
                 "the role's credentials are not given: Failed)"),
                (json.dumps(made | {"Token": None}), "there is no Token or Expiration"),
                (json.dumps(made | {"Expiration": None}), "there is no Token or Expiration"),
                ("{", "the answer is no JSON"), ("[]", "there is no AccessKeyId")):
            self.server.serve_imds(answer)
            code, text = self.error()
            self.assertEqual("EACCES", code)
            self.assertIn(message, text)

    def test_version_1_is_not_used(self):
        self.server.routes["GET", self.ROLE] = "role"
        self.server.routes["GET", self.ROLE + "role"] = metadata_keys("AKI")
        self.assertEqual("EACCES", self.error()[0])

    def test_attempts_and_time(self):
        self.server.serve_imds(metadata_keys("AKI"))
        session = self.server.routes["PUT", "/latest/api/token"]
        self.server.routes["PUT", "/latest/api/token"] = [(500, ""), (500, ""), session]
        self.assertEqual("EACCES", self.error()[0])
        self.env["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "2"
        self.server.routes["PUT", "/latest/api/token"] = [(500, ""), session]
        self.agree("instance metadata", "AKI")
        slow = lambda request: time.sleep(1.5) or session(request)
        self.server.routes["PUT", "/latest/api/token"] = slow
        self.env["AWS_METADATA_SERVICE_NUM_ATTEMPTS"] = "1"
        self.assertEqual("EACCES", self.error()[0])
        self.config("[default]\nmetadata_service_timeout = 3\n")
        self.agree("instance metadata", "AKI")
        for value in ("0", "x", "-1", "1.5", "1000000"):
            self.env["AWS_METADATA_SERVICE_TIMEOUT"] = value
            self.assertEqual(("EINVAL", "AWS_METADATA_SERVICE_TIMEOUT (or metadata_service_timeout "
                              "in the profile) is no number from 1 on"), self.error())

    def test_endpoint_mode(self):
        self.env["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "ipv5"
        self.refuse("EINVAL", "^AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is neither IPv4 nor IPv6$",
                    "InvalidConfigError" if NO_JUDGE else self.judged())
        self.server.serve_imds(metadata_keys("AKI"))
        self.env["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"] = "IPv6"
        self.agree("instance metadata", "AKI")  # the endpoint goes before it
        self.env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = self.server.url + "/"
        self.agree("instance metadata", "AKI")

    def test_late_ones_are_stretched(self):
        """Those with little time left, or none, count as good for a while."""
        for left in (600, -3600):
            self.server.serve_imds(metadata_keys("AKI", time.time() + left))
            before = time.time()
            expires = self.agree("instance metadata", "AKI")["expires"]
            self.assertTrue(before + 900 + 119 <= expires <= time.time() + 900 + 601, expires)

    def test_used_on_while_it_is_out(self):
        base = self.ROLE + "my-role"
        self.server.serve_imds(metadata_keys("AK1", time.time() + 6 * 3600))
        with self.stepping("open", "get", "pause", "+21500", "get", "expired", "get", "pause",
                           "+1000", "get") as (lines, go_on):
            self.assertEqual("AK1", lines(2)[1]["access_key"])
            working = self.server.routes["PUT", "/latest/api/token"]
            self.server.routes["PUT", "/latest/api/token"] = 500, ""
            before = int(time.time()) + 21500
            go_on()
            for line in lines(2):
                self.assertEqual("AK1", line["access_key"])
                self.assertGreaterEqual(line["expires"], before + 900)
            self.server.routes["PUT", "/latest/api/token"] = working
            self.server.serve_imds(metadata_keys("AK2", time.time() + 30 * 3600))
            go_on()
            self.assertEqual("AK2", lines(1)[0]["access_key"])
        self.assertEqual(2, self.server.count("GET", base))


class Addresses(ChainTest):
    """The addresses that nobody has to name: this file runs itself in a network of its own, where the
    loopback device has them."""

    def inside(self, case):
        done = subprocess.run([sys.executable, __file__, case], capture_output=True, text=True,
                              timeout=120, env=os.environ | {"ITEMFS_BIN": chain.BIN})
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_container(self):
        opened, got, path = self.inside("container")
        self.assertEqual({"source": "container"}, opened)
        self.assertKeys("AKC", got)
        self.assertEqual("/role", path)

    def test_instance(self):
        opened, got, path = self.inside("instance")
        self.assertEqual({"source": "instance metadata"}, opened)
        self.assertKeys("AKI", got)
        self.assertEqual("/latest/api/token", path)


def enter_network(addresses):
    """Raises OSError where this user may not."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", UP_AND_RUNNING))
        for number, address in enumerate(addresses):
            fcntl.ioctl(device, SIOCSIFADDR, struct.pack(
                "16sHH4s16x", f"lo:{number}".encode(), socket.AF_INET, 0, socket.inet_aton(address)))


def run_inside(case):
    address = {"container": "169.254.170.2", "instance": "169.254.169.254"}[case]
    try:
        enter_network([address])
    except OSError as problem:
        print(f"no network of its own: {problem}", file=sys.stderr)
        sys.exit(77)
    server = Server(address, 80)
    server.routes["GET", "/role"] = metadata_keys("AKC")
    server.serve_imds(metadata_keys("AKI"))
    env = {"HOME": "/nowhere", "http_proxy": "http://127.0.0.1:1"}
    env |= {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/role"} if case == "container" else {}
    done = subprocess.run([chain.PROGRAM, "open", "get"], env=env, stdout=subprocess.PIPE, text=True)
    print(done.stdout + json.dumps(server.requests[0].path if server.requests else None))
    sys.stdout.flush()
    os._exit(done.returncode)


if __name__ == "__main__":
    run_inside(sys.argv[1])
