# SPDX-License-Identifier: MIT
"""Every allocation of every link fails once: no memory is what is said, and nothing is left behind
(the leak checker looks at the end)."""

import time

from chain import (MARK, ChainTest, iso, metadata_keys, process_keys, sso_keys, sts_answer,
                   token)

LOGIN = {"clientId": "client", "clientSecret": MARK, "refreshToken": MARK,
         "registrationExpiresAt": iso(4e9)}


class Memory(ChainTest):
    def check(self, *arguments, at_least=20, tolerated=0):
        """TOLERATED: how many may go well all the same, beside the one that nothing failed in."""
        line, = self.show(*arguments, "failing")
        self.assertEqual(("", 0), (line["other"], line["wrong"]))
        self.assertGreaterEqual(line["no_memory"], at_least)
        self.assertTrue(1 <= line["good"] <= 1 + tolerated, line)

    def base(self):
        self.server.known["AKBASE"] = token("AKBASE")
        return "[profile base]\n" + self.keys("AKBASE", True)

    def test_environment(self):
        self.set_keys("AKENV", session=True)
        self.check()

    def test_files(self):
        self.credentials("[default]\n" + self.keys("AKFILE", True))
        self.config("[default]\nregion = x\nservices = s\ns3 =\n  a = b\n[services s]\ndynamodb =\n"
                    "  endpoint_url = http://h\n[profile \"a b\"]\n[sso-session x]\n")
        self.check(at_least=100)

    def test_config(self):
        self.config("[profile dev]\n" + self.keys("AKDEV", True))
        self.check("--profile", "dev")

    def test_process(self):
        command = self.write("command", f"#!/bin/sh\necho '{process_keys('AKP', 4e9)}'\n", 0o700)
        self.config(f"[default]\ncredential_process = {command}\n")
        self.check()

    def test_role(self):
        self.config("[default]\nrole_arn = arn:aws:iam::1:role/ONE\nsource_profile = two\n"
                    "external_id = x\n[profile two]\nrole_arn = arn:aws:iam::1:role/TWO\n"
                    "source_profile = base\n" + self.base())
        expires = time.time() + 9000
        self.server.routes["POST", "/"] = lambda request: sts_answer(
            "AssumeRole", request.form["RoleArn"].split("/")[1], expires)
        self.check(at_least=100)

    def test_web_identity(self):
        self.env |= {"AWS_ROLE_ARN": "arn:aws:iam::1:role/WEB", "AWS_ROLE_SESSION_NAME": "s",
                     "AWS_WEB_IDENTITY_TOKEN_FILE": self.write("web", token("web"))}
        answer = sts_answer("AssumeRoleWithWebIdentity", "WEB")
        self.server.routes["POST", "/"] = answer
        self.check()

    def sso(self):
        self.config("[default]\nsso_session = my\nsso_account_id = 1\nsso_role_name = Admin\n"
                    "[sso-session my]\nsso_region = us-east-1\nsso_start_url = https://start\n")
        self.server.routes["GET", "/federation/credentials"] = sso_keys("AKSSO")

    def test_sso(self):
        self.sso()
        self.login("my", **LOGIN)
        self.check(at_least=50)

    def test_sso_renewal(self):
        """It is given up without memory: the token that is there does."""
        self.sso()
        self.login("my", time.time() + 600, **LOGIN)
        self.server.routes["POST", "/token"] = '{"accessToken": "new", "expiresIn": 600}'
        self.check(at_least=50, tolerated=30)

    def test_container(self):
        self.env |= {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.server.url + "/role",
                     "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": self.write("token", token("x"))}
        self.server.routes["GET", "/role"] = metadata_keys("AKC")
        self.check()

    def test_instance(self):
        del self.env["AWS_REGION"], self.env["AWS_DEFAULT_REGION"]
        self.server.serve_imds(metadata_keys("AKI", time.time() + 90000))
        self.check(at_least=40)
