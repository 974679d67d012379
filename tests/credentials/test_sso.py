# SPDX-License-Identifier: MIT
"""Roles of SSO: with the token that a login left behind, renewed where that can be."""

import json
import os
import stat
import time

from chain import MARK, NO_JUDGE, ChainTest, digest, iso, sso_keys, token

ASK = ("GET", "/federation/credentials")
RENEW = ("POST", "/token")
SESSION = ("[default]\nsso_session = my\nsso_account_id = 123456789012\nsso_role_name = Admin\n"
           "[sso-session my]\nsso_region = us-east-1\nsso_start_url = https://start\n")
LEGACY = ("[default]\nsso_account_id = 123456789012\nsso_role_name = Admin\nsso_region = us-east-1\n"
          "sso_start_url = https://start\n")
RENEWABLE = {"clientId": "client", "clientSecret": MARK + "-client", "refreshToken": MARK + "-refresh"}


class SsoTest(ChainTest):
    def setUp(self):
        super().setUp()
        self.server.routes[ASK] = lambda request: (
            sso_keys("AKSSO") if request.headers["x-amz-sso_bearer_token"] == token("login")
            else (401, json.dumps({"__type": "UnauthorizedException",
                             "message": "Session token not found or invalid"})))

    def renewable(self, expires, registered=None, **more):
        return self.login("my", expires, **RENEWABLE,
                          registrationExpiresAt=iso(registered or time.time() + 90 * 86400), **more)


class Login(SsoTest):
    def test_session(self):
        self.config(SESSION)
        self.login("my")
        got = self.agree("profile default (SSO)", "AKSSO")
        self.assertAlmostEqual(time.time() + 3600, got["expires"], delta=60)

    def test_legacy(self):
        self.config(LEGACY)
        self.login("https://start")
        self.agree("profile default (SSO)", "AKSSO")
        self.login("https://start", expiresAt=iso(time.time() + 600).replace("Z", "UTC"))
        self.agree("profile default (SSO)", "AKSSO")

    def test_what_is_sent(self):
        self.config(SESSION.replace("Admin", "Ad&min é"))
        self.login("my")
        self.agree("profile default (SSO)", "AKSSO")
        ours, theirs = self.server.requests[0], self.server.requests[-1]
        self.assertEqual("role_name=Ad%26min%20%C3%A9&account_id=123456789012", ours.query)
        if not NO_JUDGE:
            self.assertEqual(theirs.query, ours.query)

    def test_profile_and_session(self):
        """What both say must be the same; what only one says counts."""
        self.config(SESSION.replace("sso_role_name = Admin\n", "sso_region = us-east-1\n")
                    + "sso_role_name = Admin\n")
        self.login("my")
        self.agree("profile default (SSO)", "AKSSO")
        self.config(SESSION.replace("sso_role_name", "sso_region = eu-west-1\nsso_role_name"))
        self.refuse("EINVAL", '^sso_region differs between the profile "default" and its sso-session$',
                    "InvalidConfigError")

    def test_not_complete(self):
        for name in ("sso_account_id", "sso_role_name", "sso_region", "sso_start_url"):
            self.config("".join(line for line in LEGACY.splitlines(True) if name not in line))
            self.refuse("EINVAL", f'^the profile "default" is one of SSO, but has no {name}$',
                        "InvalidConfigError")
        self.config(SESSION.replace("[sso-session my]", "[sso-session other]"))
        self.refuse("EINVAL", 'has the sso_session "my", which is not there$', "InvalidConfigError")

    def test_nobody_logged_in(self):
        self.config(SESSION)
        self.refuse("EACCES", r"^credentials of profile default \(SSO\): nobody is logged in: run "
                    "aws sso login$", "SSOTokenLoadError")

    def test_broken_file(self):
        self.config(SESSION)
        path = self.login("my")
        for text, message in (("{", "line 1, column 2: "), ("{}", "has no accessToken or no expires"),
                              ('{"accessToken": "x"}', "has no accessToken or no expiresAt"),
                              ('{"accessToken": "x", "expiresAt": "soon"}', "or no expiresAt"),
                              ('{"accessToken": 1, "expiresAt": "2099-01-01T00:00:00Z"}',
                               "has no accessToken")):
            self.write(path, text)
            code, said = self.error()
            self.assertEqual("EACCES", code)
            self.assertIn(message, said)

    def test_expired_login(self):
        for text, name in ((SESSION, "my"), (LEGACY, "https://start")):
            self.config(text)
            self.login(name, time.time() - 10)
            code, said = self.error()
            self.assertEqual(("EACCES", "credentials of profile default (SSO): the login has "
                              "expired: run aws sso login"), (code, said))
        self.assertEqual(0, self.server.count(*ASK))

    def test_refused(self):
        self.config(SESSION)
        self.login("my", accessToken=MARK + "another")
        self.refuse("EACCES", "the login is not valid any more: run aws sso login$",
                    "UnauthorizedSSOTokenError")
        self.login("my")
        self.server.routes[ASK] = 403, json.dumps({"message": "No access\n"})
        self.refuse("EACCES", r"SSO gives HTTP 403: No access\\x0A$", "ClientError")
        self.server.routes[ASK] = [(500, ""), (503, ""), sso_keys("AKSSO")]
        self.assertKeys("AKSSO", self.found()[1])
        self.server.routes[ASK] = 500, ""
        self.assertEqual("EIO", self.error()[0])

    def test_answers_that_are_none(self):
        self.config(SESSION)
        self.login("my")
        whole = sso_keys("AKSSO")
        for answer, message in (("", "the answer is no JSON"),
                                ("{}", "there are no roleCredentials"),
                                (whole.replace("secretAccessKey", "x"), "no secretAccessKey"),
                                (whole.replace("expiration", "x"), "is no time"),
                                ('{"roleCredentials": {"accessKeyId": 1}}', "is no text")):
            self.server.routes[ASK] = answer
            code, said = self.error()
            self.assertIn(message, said)
            self.assertEqual("EIO", code)


class Renewal(SsoTest):
    def setUp(self):
        super().setUp()
        self.config(SESSION)
        self.server.routes[ASK] = lambda request: (
            sso_keys("AKSSO") if request.headers["x-amz-sso_bearer_token"] == token("new")
            else sso_keys("AKOLD"))
        self.server.routes[RENEW] = json.dumps({
            "accessToken": token("new"), "expiresIn": 28800, "tokenType": "Bearer",
            "refreshToken": MARK + "-refresh2"})

    def held(self, path):
        with open(path) as file:
            return json.load(file)

    def test_renewed(self):
        for left in (600, -600):
            path = self.renewable(time.time() + left)
            self.server.requests.clear()
            self.assertKeys("AKSSO", self.found()[1])
            request = self.server.last(*RENEW)
            self.assertEqual({"grantType": "refresh_token", **RENEWABLE}, json.loads(request.body))
            self.assertEqual("application/json", request.headers["Content-Type"])
            held = self.held(path)
            self.assertEqual(digest(token("new")), digest(held["accessToken"]))
            self.assertEqual((MARK + "-refresh2", "client", "https://start", "us-east-1"),
                             (held["refreshToken"], held["clientId"], held["startUrl"],
                              held["region"]))
            self.assertRegex(held["expiresAt"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertEqual(0o600, stat.S_IMODE(os.stat(path).st_mode))
            self.assertEqual([os.path.basename(path)], os.listdir(os.path.dirname(path)))

    def test_botocore_goes_on_with_it(self):
        self.renewable(time.time() + 600)
        self.agree("profile default (SSO)", "AKSSO")
        self.assertEqual(1, self.server.count(*RENEW))

    def test_as_botocore(self):
        path = self.renewable(time.time() + 600, registered=4e9)
        self.found()
        ours = self.held(path)
        if NO_JUDGE:
            self.skipTest(NO_JUDGE)
        self.renewable(time.time() + 600, registered=4e9)
        self.judged()
        theirs = self.held(path)
        self.assertEqual(json.loads(self.server.requests[-2].body),
                         json.loads(self.server.requests[0].body))
        self.assertEqual(theirs.keys(), ours.keys())
        self.assertEqual({**theirs, "expiresAt": ""}, {**ours, "expiresAt": ""})

    def test_not_yet(self):
        self.renewable(time.time() + 1200)
        self.assertKeys("AKOLD", self.found()[1])
        self.assertEqual(0, self.server.count(*RENEW))

    def test_kept_refresh_token(self):
        self.server.routes[RENEW] = json.dumps({"accessToken": token("new"), "expiresIn": 28800})
        path = self.renewable(time.time() + 600)
        self.assertKeys("AKSSO", self.found()[1])
        self.assertEqual(MARK + "-refresh", self.held(path)["refreshToken"])

    def test_not_renewed(self):
        """The token that is there does as long as it lasts."""
        before = time.time() - 10
        for route in ((400, "{}"), "{}", "x", json.dumps({"accessToken": token("new")}),
                      json.dumps({"accessToken": token("new"), "expiresIn": "x"})):
            self.server.routes[RENEW] = route
            path = self.renewable(time.time() + 600)
            self.assertKeys("AKOLD", self.found()[1])
            self.assertEqual(token("login"), self.held(path)["accessToken"])
            self.renewable(before)
            self.assertIn("the login has expired", self.error()[1])

    def test_cannot_be_renewed(self):
        self.renewable(time.time() - 10, registered=time.time() - 5)
        self.assertIn("the login has expired", self.error()[1])
        self.login("my", time.time() - 10, clientId="client", registrationExpiresAt=iso(4e9))
        self.assertIn("the login has expired", self.error()[1])
        self.assertEqual(0, self.server.count(*RENEW))

    def test_hosts(self):
        """Where nothing says where the services are, a proxy is asked for their hosts."""
        del self.env["AWS_ENDPOINT_URL_SSO"], self.env["AWS_ENDPOINT_URL_SSO_OIDC"]
        self.env |= {"https_proxy": self.server.url, "AWS_MAX_ATTEMPTS": "1"}
        self.server.routes["CONNECT", "oidc.us-east-1.amazonaws.com:443"] = 403, ""
        self.renewable(time.time() + 600)
        self.assertEqual("EHOSTUNREACH", self.error()[0])
        ours = {request.path for request in self.server.requests}
        self.assertEqual({"oidc.us-east-1.amazonaws.com:443",
                          "portal.sso.us-east-1.amazonaws.com:443"}, ours)
        if not NO_JUDGE:
            self.server.requests.clear()
            self.login("my")
            self.judged()
            self.assertEqual({"portal.sso.us-east-1.amazonaws.com:443"},
                             {request.path for request in self.server.requests})
