# SPDX-License-Identifier: MIT
"""A function for tests: an HTTP server that replies as it is told and remembers what it was sent."""

import http.server
import json
import socket
import ssl
import threading
import time


class Delivery:
    """One request that has come."""

    def __init__(self, headers, body, reply):
        self.headers, self.body, self.reply = headers, body, reply
        self.time = time.monotonic()
        self.payload = json.loads(body)

    @property
    def records(self):
        return self.payload["change_records"]

    @property
    def ids(self):
        return [record["change_id"] for record in self.records]


class Function:
    """Replies are a status, or a dict of `status`, `body`, `headers`, `hold` (an Event that the reply
    waits for), `close` (no reply). Those in `script` are given first, one each; then `reply`, which
    may be a function of the Delivery."""

    def __init__(self, script=(), reply=200, tls=None):
        self.script, self.reply, self.tls = list(script), reply, tls
        self.deliveries, self.others = [], []
        self.good = {}  # by id, what was answered with 200
        self.change = threading.Condition()
        self.server = self.thread = None
        self.port = 0
        self.sockets = set()

    # Coming and going: the port stays the same.

    def start(self):
        function = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                function.sockets.add(self.request)
                super().setup()

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                function.take(self, body)

            def other(self):
                function.others.append(f"{self.command} {self.path}")
                self.send_error(405)

            do_GET = do_PUT = other  # pylint: disable=invalid-name

            def log_message(self, *arguments):  # pylint: disable=arguments-differ
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address):
                pass  # a daemon that was killed, or has broken off a call

        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        if self.tls:
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True,
                                                      do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        return self

    def stop(self):
        """Nobody listens any more, and open connections are cut."""
        if not self.server:
            return
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for sock in list(self.sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.sockets.clear()
        self.server = None

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}/hook"

    # One request.

    def take(self, handler, body):
        with self.change:
            reply = self.script.pop(0) if self.script else self.reply
            delivery = Delivery(handler.headers, body, reply)
            if callable(reply):
                reply = delivery.reply = reply(delivery)
            self.deliveries.append(delivery)
            if reply == 200:
                for record in delivery.records:
                    self.good.setdefault(record["change_id"], record)
            self.change.notify_all()
        if not isinstance(reply, dict):
            reply = {"status": reply}
        if "hold" in reply:
            reply["hold"].wait(120)
        if reply.get("close"):
            handler.close_connection = True
            handler.connection.close()
            return
        data = reply.get("body", "").encode()
        handler.send_response(reply.get("status", 200))
        for name, value in reply.get("headers", {}).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    # What has come.

    def wait(self, condition, seconds=60):
        """Waits until CONDITION(deliveries) holds, and returns them."""
        with self.change:
            if not self.change.wait_for(lambda: condition(self.deliveries), seconds):
                raise AssertionError(f"waited {seconds} s in vain; {len(self.deliveries)} deliveries "
                                     f"came, the last: {self.deliveries[-1:] and vars(self.deliveries[-1])}")
            return list(self.deliveries)

    def wait_calls(self, count):
        return self.wait(lambda deliveries: len(deliveries) >= count)

    def wait_records(self, count):
        """Until COUNT different changes were taken."""
        return self.wait(lambda _: self.count_taken() >= count)

    def taken(self):
        """The records of the calls that were answered with 200, first deliveries only, in order."""
        with self.change:
            return list(self.good.values())

    def count_taken(self):
        return len(self.good)


def make_certificates(place, name="localhost"):
    """A CA of its own and a server context with a certificate of it: (CA file, context)."""
    import subprocess  # pylint: disable=import-outside-toplevel
    ca, key, cert, request = (f"{place}/{name}.{suffix}" for suffix in ("ca.pem", "key", "crt", "csr"))
    ca_key, extension = f"{place}/{name}.ca.key", f"{place}/{name}.ext"
    with open(extension, "w", encoding="utf-8") as file:
        file.write(f"subjectAltName=DNS:{name}\n")
    for command in (
            f"req -x509 -newkey rsa:2048 -nodes -keyout {ca_key} -out {ca} -days 2 -subj /CN=ca-{name}",
            f"req -newkey rsa:2048 -nodes -keyout {key} -out {request} -subj /CN={name}",
            f"x509 -req -in {request} -CA {ca} -CAkey {ca_key} -CAcreateserial -out {cert} -days 2"
            f" -extfile {extension}"):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return ca, context
