# SPDX-License-Identifier: MIT
"""What the tests of the credential chain share: a scripted HTTP server in the place of all of AWS's
services, the program that shows what our chain finds, and botocore, which says what is right.

ITEMFS_BIN names the directory of the binaries.
"""

import contextlib
import datetime
import glob
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("ITEMFS_BIN", os.path.join(ROOT, "build-tests", "bin"))
PROGRAM = os.path.join(BIN, "show_credentials")

# The pinned botocore of tests/engines/install comes before one that the system has.
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
ENGINES = os.environ.get("ITEMFS_ENGINES") or os.path.join(CACHE, "itemfs-engines")
sys.path[1:1] = glob.glob(os.path.join(ENGINES, "python", "lib", "python3*", "site-packages"))
try:
    import botocore
    import botocore.auth
    import botocore.awsrequest
    import botocore.config
    import botocore.credentials
    import botocore.endpoint_provider
    import botocore.session
    import botocore.tokens
    OLDEST = (1, 37)  # STS is asked in the region, endpoints are taken from the environment
    NO_JUDGE = ("" if tuple(map(int, botocore.__version__.split(".")[:2])) >= OLDEST
                else f"botocore {botocore.__version__} is older than 1.37")
except ImportError as error:
    botocore, NO_JUDGE = None, str(error)

# In everything that is secret, and so in nothing that is shown.
MARK = "s3cr3t"
REGION = "eu-west-1"


def secret(name):
    return f"{MARK}/of+{name}="


def token(name):
    return f"{MARK}-token/of+{name}=="


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest() if text else None


def iso(epoch):
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ")


def process_keys(name, expires=None, session=True):
    """What a credential_process writes."""
    made = {"Version": 1, "AccessKeyId": name, "SecretAccessKey": secret(name)}
    made |= {"SessionToken": token(name)} if session else {}
    return json.dumps(made | ({"Expiration": iso(expires)} if expires else {}))


def metadata_keys(name, expires=None):
    """What a container's or an instance's surroundings serve."""
    return json.dumps({"Code": "Success", "AccessKeyId": name, "SecretAccessKey": secret(name),
                       "Token": token(name), "Expiration": iso(expires or time.time() + 3600)})


def sso_keys(name, expires=None):
    """What SSO gives for a role."""
    return json.dumps({"roleCredentials": {
        "accessKeyId": name, "secretAccessKey": secret(name), "sessionToken": token(name),
        "expiration": int((expires or time.time() + 3600) * 1000)}})


def sts_answer(action, name, expires=None):
    return f"""<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <{action}Result>
    <AssumedRoleUser><AssumedRoleId>A:s</AssumedRoleId><Arn>arn:aws:sts::1:x</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>{name}</AccessKeyId>
      <SecretAccessKey>{secret(name)}</SecretAccessKey>
      <SessionToken>{token(name)}</SessionToken>
      <Expiration>{iso(expires or time.time() + 3600)}</Expiration>
    </Credentials>
  </{action}Result>
  <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>
</{action}Response>"""


def sts_error(code, message):
    return (f'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender'
            f"</Type><Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId>"
            "</ErrorResponse>")


class Request:
    def __init__(self, handler):
        self.method = handler.command
        self.path, _, self.query = handler.path.partition("?")
        self.headers = handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()

    @property
    def form(self):
        return dict(urllib.parse.parse_qsl(self.body))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self):
        request = Request(self)
        status, body = self.server.owner.answer(request)
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_CONNECT = answer


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Server:
    """ROUTES: (method, path) to a body, a status with a body, a function of the request that returns
    one of these, or a list of them, of which each is used once and the last for ever. STS has a
    route of its own: it gives the role's name as the access key."""

    def __init__(self, address="127.0.0.1", port=0):
        self.routes = {("POST", "/"): self.sts}
        self.requests = []
        self.known = {}  # access key: the session token that belongs to it
        self.lock = threading.Lock()
        self.http = QuietServer((address, port), Handler)
        self.http.owner = self
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=[0.02], daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request):
        with self.lock:
            self.requests.append(request)
            route = self.routes.get((request.method, request.path), (404, "not here"))
            if isinstance(route, list):
                route = route.pop(0) if len(route) > 1 else route[0]
        answer = route(request) if callable(route) else route
        return answer if isinstance(answer, tuple) else (200, answer)

    def sts(self, request):
        action = request.form["Action"]
        if request.form["Version"] != "2011-06-15":
            return 400, sts_error("NoSuchVersion", "?")
        if action == "AssumeRole" and (problem := self.signature_problem(request)):
            return 403, sts_error("SignatureDoesNotMatch", problem)
        if action == "AssumeRoleWithWebIdentity":
            if "Authorization" in request.headers:
                return 400, sts_error("ValidationError", "signed")
            if not request.form["WebIdentityToken"].startswith(MARK):
                return 400, sts_error("InvalidIdentityToken", "no such token")
        name = request.form["RoleArn"].split("/")[-1]
        self.known[name] = token(name)
        return sts_answer(action, name)

    def signature_problem(self, request):
        """Signs what has come in with botocore, and compares."""
        if NO_JUDGE:
            return None
        signed = request.headers["Authorization"].split("SignedHeaders=")[1].split(",")[0]
        key, _, region, service, _ = (
            request.headers["Authorization"].split("Credential=")[1].split(",")[0].split("/"))
        headers = {name: request.headers[name] for name in signed.split(";")}
        if headers.get("x-amz-security-token") != self.known.get(key):
            return f"the token is not the one of {key}"
        again = botocore.awsrequest.AWSRequest(
            "POST", f"http://{request.headers['Host']}/", headers, request.body.encode())
        signer = botocore.auth.SigV4Auth(
            botocore.credentials.Credentials(key, secret(key)), service, region)
        again.context["timestamp"] = request.headers["X-Amz-Date"]
        wanted = signer.signature(
            signer.string_to_sign(again, signer.canonical_request(again)), again)
        return None if request.headers["Authorization"].endswith(f"Signature={wanted}") else "?"

    def count(self, method, path):
        return sum(1 for r in self.requests if (r.method, r.path) == (method, path))

    def last(self, method, path):
        return [r for r in self.requests if (r.method, r.path) == (method, path)][-1]

    def serve_imds(self, keys, role="my-role"):
        """KEYS: as a route has it."""
        base = "/latest/meta-data/iam/security-credentials/"

        def with_token(route):
            def checked(request):
                if request.headers.get("x-aws-ec2-metadata-token") != "imds-session":
                    return 401, ""
                return route(request) if callable(route) else route
            return checked

        def session(request):
            seconds = request.headers.get("x-aws-ec2-metadata-token-ttl-seconds")
            return "imds-session" if seconds == "21600" else (400, "")

        self.routes["PUT", "/latest/api/token"] = session
        self.routes["GET", base] = with_token(role)
        self.routes["GET", base + role] = (
            [with_token(each) for each in keys] if isinstance(keys, list) else with_token(keys))
        self.routes["GET", "/latest/meta-data/placement/region"] = with_token("ap-south-1")


class ChainTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="credentials-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.server = Server()
        self.addCleanup(self.server.close)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.dir, "LC_ALL": "C.UTF-8",
                    "ASAN_OPTIONS": "detect_leaks=1:exitcode=97",
                    "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
                    "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.server.url,
                    "AWS_ENDPOINT_URL_STS": self.server.url,
                    "AWS_ENDPOINT_URL_SSO": self.server.url,
                    "AWS_ENDPOINT_URL_SSO_OIDC": self.server.url}

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text, mode=0o600):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path

    def config(self, text):
        return self.write(".aws/config", text)

    def credentials(self, text):
        return self.write(".aws/credentials", text)

    @staticmethod
    def keys(name, session=False):
        """Settings of a profile."""
        text = f"aws_access_key_id = {name}\naws_secret_access_key = {secret(name)}\n"
        return text + (f"aws_session_token = {token(name)}\n" if session else "")

    def set_keys(self, name, session=False):
        self.env |= {"AWS_ACCESS_KEY_ID": name, "AWS_SECRET_ACCESS_KEY": secret(name)}
        self.env |= {"AWS_SESSION_TOKEN": token(name)} if session else {}

    def login(self, name, expires=None, **more):
        """Leaves behind what "aws sso login" does: NAME is the session's, or the start URL."""
        file = hashlib.sha1(name.encode()).hexdigest() + ".json"
        held = {"startUrl": "https://start", "region": "us-east-1", "accessToken": token("login"),
                "expiresAt": iso(expires or time.time() + 7200)}
        return self.write(os.path.join(".aws/sso/cache", file), json.dumps(held | more))

    # Our chain.

    def read(self, text):
        """Lines of the program; nothing in them, or beside them, is secret."""
        self.assertNotIn(MARK, text)
        return [json.loads(line) for line in text.splitlines()]

    def show(self, *arguments, timeout=60):
        done = subprocess.run([PROGRAM, *arguments], env=self.env, cwd=self.dir, timeout=timeout,
                              capture_output=True, stdin=subprocess.DEVNULL, text=True)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        return self.read(done.stdout)

    @contextlib.contextmanager
    def stepping(self, *arguments):
        """Runs it as far as each pause; yields a function that returns the lines until then."""
        process = subprocess.Popen([PROGRAM, *arguments], env=self.env, cwd=self.dir, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)

        def lines(count):
            return self.read("".join(process.stdout.readline() for _ in range(count)))

        def go_on():
            process.stdin.write("\n")
            process.stdin.flush()

        # A line that does not come would be waited for without end.
        watch = threading.Timer(60, process.kill)
        watch.start()
        try:
            yield lines, go_on
            rest, err = process.communicate(timeout=60)
            self.assertEqual((0, "", ""), (process.returncode, rest, err))
        finally:
            watch.cancel()
            process.kill()
            process.communicate()

    def found(self, *arguments):
        """(source, get) of a chain that finds something."""
        lines = self.show(*arguments, "open", "get")
        self.assertEqual(2, len(lines), lines)
        return lines[0]["source"], lines[1]

    def error(self, *arguments):
        """(errno's name, message) of a chain that finds nothing."""
        lines = self.show(*arguments, "open", "get")
        self.assertEqual(1, len(lines), lines)
        return lines[0]["error"], lines[0]["message"]

    def assertKeys(self, name, got, session=True):
        self.assertEqual((name, digest(secret(name)), digest(token(name)) if session else None),
                         (got["access_key"], got["secret"], got["token"]))

    # botocore.

    @contextlib.contextmanager
    def judging(self):
        home = os.path.join(self.dir, ".aws", "sso", "cache")
        with (unittest.mock.patch.dict(os.environ, self.env, clear=True),
              unittest.mock.patch.object(botocore.credentials.SSOProvider, "_SSO_TOKEN_CACHE_DIR",
                                         home),
              unittest.mock.patch.object(botocore.tokens.SSOTokenProvider, "_SSO_TOKEN_CACHE_DIR",
                                         home)):
            yield

    def judged(self, profile=None):
        """The keys that botocore finds, the name of its exception, or None."""
        with self.judging():
            try:
                found = botocore.session.Session(profile=profile).get_credentials()
                keys = found and found.get_frozen_credentials()
            except Exception as problem:
                return type(problem).__name__
        return keys and (keys.access_key, digest(keys.secret_key), digest(keys.token))

    def agree(self, source, name, *, profile=None, session=True):
        """Ours finds NAME's keys by way of SOURCE, and so does botocore, with the same keys."""
        arguments = ["--profile", profile] if profile else []
        said, got = self.found(*arguments)
        self.assertEqual(source, said)
        self.assertKeys(name, got, session)
        if not NO_JUDGE:
            self.assertEqual((got["access_key"], got["secret"], got["token"]),
                             self.judged(profile))
        return got

    def refuse(self, code, message, exception, *, profile=None):
        """Ours ends with CODE and a MESSAGE (a pattern), botocore with EXCEPTION (None: no keys)."""
        got, text = self.error(*(["--profile", profile] if profile else []))
        self.assertEqual(code, got, text)
        self.assertRegex(text, message)
        if not NO_JUDGE:
            self.assertEqual(exception, self.judged(profile))
