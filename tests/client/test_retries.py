# SPDX-License-Identifier: MIT
"""What is sent again and what is not, how often, and what is said in the end."""

import concurrent.futures
import os
import unittest

from calls import ClientTest, SECRET, TOKEN

THROTTLED = [
    "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
    "RequestThrottledException", "TooManyRequestsException",
    "ProvisionedThroughputExceededException", "RequestLimitExceeded", "LimitExceededException",
    "SlowDown", "TransactionInProgressException", "PriorRequestNotComplete",
]
TRANSIENT = ["RequestTimeout", "RequestTimeoutException", "ReplicatedWriteConflictException"]
SKEWED = ["InvalidSignature", "InvalidSignatureException", "SignatureDoesNotMatch",
          "RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed", "AuthFailure"]
FINAL = {
    "ResourceNotFoundException": "ENOENT",
    "ConditionalCheckFailedException": "EEXIST",
    "ResourceInUseException": "EBUSY",
    "ValidationException": "EINVAL",
    "SerializationException": "EINVAL",
    "IdempotentParameterMismatchException": "EINVAL",
    "ItemCollectionSizeLimitExceededException": "ENOSPC",
    "TransactionConflictException": "EBUSY",
    "TransactionCanceledException": "ECANCELED",
    "AccessDeniedException": "EACCES",
    "UnrecognizedClientException": "EACCES",
    "MissingAuthenticationTokenException": "EACCES",
    "IncompleteSignatureException": "EACCES",
    "UnknownOperationException": "EOPNOTSUPP",
    "TrimmedDataAccessException": "ESTALE",
    "ExpiredIteratorException": "ESTALE",
    "SomethingNew": "EINVAL",
}
THREADS = 16  # processes at once: they mostly wait


class Retries(ClientTest):
    def each(self, cases, check):
        """CHECK(case) for all cases, side by side."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for case, future in [(case, pool.submit(check, case)) for case in cases]:
                with self.subTest(case=case):
                    future.result()

    def test_what_is_retried(self):
        def check(step):
            outcome = self.outcome(step, {"json": {"n": 2}})
            uncertain = int(step.get("status", 400) >= 500)
            self.check(outcome, "0", attempts=2, repeated=uncertain, uncertain=0, type="",
                       body='{"n": 2}')
            self.assertEqual(2, self.server.count(outcome["id"]))
            self.assertEqual(int(step.get("type") in THROTTLED or step.get("status") == 429),
                             outcome["counts"]["throttled"])

        steps = [{"type": name} for name in THROTTLED + TRANSIENT]
        steps += [{"status": status} for status in (500, 502, 503, 504, 429, 408)]
        steps += [{"status": 500, "type": "InternalServerError"},
                  {"status": 503, "raw": "<html>no service</html>"}]
        self.each(steps, check)

    def test_what_is_not(self):
        def check(name):
            outcome = self.outcome({"type": name}, {})
            self.check(outcome, FINAL[name], attempts=1, repeated=0, uncertain=0, type=name,
                       message=f"GetItem: {name}: so it is (request REQUEST-ID-1)")
            self.assertEqual(1, self.server.count(outcome["id"]))
            self.assertIn(name, outcome["body"])

        self.each(FINAL, check)

    def test_status_alone(self):
        cases = {400: "EINVAL", 401: "EACCES", 403: "EACCES", 404: "EIO", 413: "EFBIG", 501: "EIO"}

        def check(status):
            outcome = self.outcome({"status": status, "raw": "<html>no JSON</html>"}, {})
            self.check(outcome, cases[status], attempts=1, type="",
                       message=f"GetItem: HTTP {status} (request REQUEST-ID-1)")

        self.each(cases, check)

    def test_four_attempts(self):
        cases = {"ThrottlingException": "EBUSY", "LimitExceededException": "EDQUOT",
                 "RequestTimeoutException": "ETIMEDOUT", "InternalServerError": "EIO"}

        def check(name):
            status = 500 if name == "InternalServerError" else 400
            outcome = self.outcome({"type": name, "status": status})
            self.check(outcome, cases[name], attempts=4, type=name, message=(
                f"GetItem, tried 4 times: {name}: so it is (request REQUEST-ID-1)"))
            self.assertEqual(4, self.server.count(outcome["id"]))

        self.each(cases, check)

    def test_create_table(self):
        step = {"type": "ResourceInUseException"}
        self.check(self.outcome(step, operation="CreateTable"), "EEXIST", attempts=1)

    def test_condition_after_a_break(self):
        """It may be our own first attempt that the second one met."""
        for first in ({"do": "reset"}, {"status": 500}, {"crc": "bad"}):
            outcome = self.outcome(first, {"type": "ConditionalCheckFailedException"})
            self.check(outcome, "EEXIST", attempts=2, repeated=1, uncertain=0)
        outcome = self.outcome({"type": "Throttling"}, {"type": "ConditionalCheckFailedException"})
        self.check(outcome, "EEXIST", attempts=2, repeated=0, uncertain=0)


class Bucket(ClientTest):
    def test_it_empties(self):
        """500 tokens are 35 retries of 14; the last 10 are left."""
        with self.client() as client:
            outcome = client.call({"status": 500}, count=20)
            self.check(outcome, "EIO", attempts=20 + 35)
            self.assertEqual(55, self.server.count(outcome["id"]))
            self.check(client.call({"status": 500}, {}), "EIO", attempts=1)
            self.check(client.call(count=4), "0", attempts=4)
            self.check(client.call({"status": 500}), "EIO", attempts=2)

    def test_throttling_empties_it(self):
        with self.client() as client:
            outcome = client.call({"type": "ThrottlingException"}, threads=40)
            self.check(outcome, "EBUSY", codes={"EBUSY": 40}, attempts=40 + 100)

    def test_success_gives_it_back(self):
        with self.client() as client:
            for _ in range(50):
                self.check(client.call({"status": 500}, {}), "0", attempts=2)
            self.check(client.call({"status": 500}), "EIO", attempts=4)


class Waits(ClientTest):
    """Where a wait would pass the deadline, the call ends: so a wait can be seen without a clock."""

    def attempts(self, *steps, deadline="3000"):
        return self.outcome(*steps, options=("--deadline", deadline))["attempts"]

    def test_asked_to_wait(self):
        for asked, attempts in ((4000, 1), (100, 2), ("4000 ms", 2), ("-4000", 2), ("", 2),
                                ("99999999999999999999", 2)):
            with self.subTest(asked=asked):
                step = {"status": 500, "headers": {"x-amz-retry-after": asked}}
                self.assertEqual(attempts, self.attempts(step, {}))

    def test_five_seconds_at_most(self):
        step = {"status": 500, "headers": {"x-amz-retry-after": 3600000}}
        self.assertEqual(1, self.attempts(step, {}, deadline="5000"))
        self.assertEqual(2, self.attempts(step, {}, deadline="15000"))

    def test_no_time_for_a_retry(self):
        outcome = self.outcome({"status": 500, "headers": {"x-amz-retry-after": 4000}},
                               options=("--deadline", "3000"))
        self.check(outcome, "EIO", attempts=1,
                   message="GetItem: HTTP 500 (request REQUEST-ID-1)")


class Checksums(ClientTest):
    def test_wrong_once(self):
        for step in ({"crc": "bad"}, {"crc": "bad", "type": "ValidationException"},
                     {"headers": {"x-amz-crc32": "what"}}):
            self.check(self.outcome(step, {"json": {"n": 2}}), "0", attempts=2, body='{"n": 2}')

    def test_wrong_always(self):
        outcome = self.outcome({"crc": "bad"})
        self.check(outcome, "EIO", attempts=4, message=(
            "GetItem, tried 4 times: the answer's checksum is wrong"))

    def test_no_object(self):
        for raw in ("", "<html>", "[]", '{"a":1', "{} {}", "\x1f\x8b\x08"):
            with self.subTest(raw=raw):
                outcome = self.outcome({"raw": raw})
                self.check(outcome, "EIO", attempts=1, uncertain=1,
                           message="GetItem: the answer is not a JSON object")


class Clock(ClientTest):
    def test_set_and_kept(self):
        for ahead in (3600, -86400, 400):
            with self.subTest(ahead=ahead), self.client() as client:
                step = {"clock": ahead, "type": "InvalidSignatureException", "status": 403}
                self.check(client.call(step), "0", attempts=2, repeated=0)
                for once in (False, True):
                    self.check(client.call(step, once=once), "0", attempts=1)

    def test_every_name(self):
        for name in SKEWED:
            with self.subTest(name=name):
                self.check(self.outcome({"clock": 5000, "type": name}), "0", attempts=2)
        self.check(self.outcome({"clock": 5000, "status": 403, "raw": ""}), "0", attempts=2)

    def test_not_the_clock(self):
        """Another reason for a refusal, no time to go by, or one that is of no use."""
        for step in ({"type": "SignatureDoesNotMatch"},
                     {"clock": 200, "type": "InvalidSignatureException"},
                     {"clock": 5000, "type": "RequestExpired", "headers": {"Date": "yesterday"}},
                     {"clock": 5000, "type": "RequestExpired", "headers": {"Date": None}},
                     {"clock": 5000, "type": "AccessDeniedException"}):
            with self.subTest(**step):
                self.check(self.outcome(step), "EACCES", attempts=1)

    def test_once_a_call(self):
        step = {"clock": 5000, "type": "RequestExpired",
                "headers": {"Date": "Sun, 06 Nov 1994 08:49:37 GMT"}}
        self.check(self.outcome(step), "EACCES", attempts=2)
        steps = [{**step, "headers": {"Date": f"Sun, 06 Nov {year} 08:49:37 GMT"}}
                 for year in (1994, 2005, 2011)]
        self.check(self.outcome(*steps), "EACCES", attempts=2)

    def test_many_threads(self):
        with self.client() as client:
            step = {"clock": 7200, "type": "RequestTimeTooSkewed"}
            outcome = client.call(step, threads=8, count=20)
            self.check(outcome, "0", codes={"0": 160})
            self.assertLessEqual(outcome["attempts"], 168)


class Expiry(ClientTest):
    """Credentials come from a process that gives a new key each time."""

    def setUp(self):
        super().setUp()
        self.counter = os.path.join(self.dir, self.new_id())
        script, config = self.counter + ".sh", self.counter + ".ini"
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
printf x >>{self.counter}
echo '{{"Version": 1, "AccessKeyId": "KEY'$(wc -c <{self.counter})'",
"SecretAccessKey": "{SECRET}", "SessionToken": "{TOKEN}"}}'
""")
        os.chmod(script, 0o700)
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[profile rolling]\ncredential_process = {script}\n")
        self.rolling = {"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}

    def fetched(self):
        return os.path.getsize(self.counter)

    def test_refreshed_once(self):
        for name in ("ExpiredToken", "ExpiredTokenException"):
            before = self.fetched() if os.path.exists(self.counter) else 0
            with self.client("--profile", "rolling", env=self.rolling) as client:
                step = {"expired": f"KEY{before + 1}", "type": name}
                self.check(client.call(step), "0", attempts=2, repeated=0)
                self.check(client.call(step), "0", attempts=1)
                self.assertEqual(before + 2, self.fetched())

    def test_in_vain(self):
        outcome = self.outcome({"type": "ExpiredTokenException"}, env=self.rolling,
                               options=("--profile", "rolling"))
        self.check(outcome, "EACCES", attempts=2, type="ExpiredTokenException")
        self.assertEqual(2, self.fetched())

    def test_once_too(self):
        with self.client("--profile", "rolling", env=self.rolling) as client:
            outcome = client.call({"expired": "KEY1", "type": "ExpiredTokenException"}, once=True)
            self.check(outcome, "0", attempts=2, repeated=0)

    def test_many_threads(self):
        with self.client("--profile", "rolling", env=self.rolling) as client:
            step = {"expired": "KEY1", "type": "ExpiredTokenException"}
            outcome = client.call(step, threads=8, count=10)
            self.check(outcome, "0", codes={"0": 80})
            self.assertEqual(2, self.fetched())


class Messages(ClientTest):
    def said(self, message, name="InvalidSignatureException"):
        outcome = self.outcome({"type": name, "message": message}, options=("--debug",))
        self.assertEqual(1, outcome["attempts"])
        return outcome["message"]

    def test_secrets_are_not_repeated(self):
        """Nor handed on in the body, nor logged before a retry."""
        for message in (f"x-amz-security-token:{TOKEN}", f"Your key {SECRET} is wrong",
                        "x" * 600 + TOKEN):
            self.assertEqual(
                "GetItem: InvalidSignatureException: what it says holds credentials, and is not "
                "shown (request REQUEST-ID-1)", self.said(message))
        step = {"type": "InternalServerError", "message": f"no {SECRET}", "status": 500}
        with self.client("--debug") as client:
            self.check(client.call(step, {}), "0", attempts=2)
            self.assertIn(b"call_client: debug: dynamodb: GetItem: attempt 1: InternalServerError:"
                          b" what it says holds credentials, and is not shown (request REQUEST-ID-1"
                          b"); again in ", client.errors())

    def test_first_line_only(self):
        self.assertEqual(
            "GetItem: InvalidSignatureException: It does not match. (request REQUEST-ID-1)",
            self.said("It does not match.\n\nThe Canonical String for this request was"))

    def test_nothing_for_a_terminal(self):
        self.assertEqual("GetItem: X: a\\x1B[31mb\\xC2\\x9Bé (request REQUEST-ID-1)",
                         self.said("a\x1b[31mb\x9bé\0not shown", "X"))

    def test_long_ones_are_cut(self):
        for message, shown in (("é" * 5000, ": " + "é" * 150), ("x" * 20000, ""),
                               ("x" + "é" * 5000, ": x" + "é" * 149)):
            self.assertEqual(f"GetItem: X{shown} (request REQUEST-ID-1)", self.said(message, "X"))


if __name__ == "__main__":
    unittest.main()
