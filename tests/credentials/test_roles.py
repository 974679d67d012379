# SPDX-License-Identifier: MIT
"""Roles: assumed with the keys of another profile or of the machine, and by web identity."""

import calendar
import os
import time

from chain import (MARK, NO_JUDGE, REGION, ChainTest, metadata_keys, process_keys,
                   sso_keys, sts_answer, sts_error, token)

STS = ("POST", "/")


def arn(name):
    return f"arn:aws:iam::123456789012:role/path/{name}"


class RoleTest(ChainTest):
    def roles(self, settings, *more):
        self.config(f"[default]\nrole_arn = {arn('ROLE')}\n{settings}\n" + "".join(more))

    def base(self, name="base", key="AKBASE", session=False):
        self.server.known[key] = token(key) if session else None
        return f"[profile {name}]\n" + self.keys(key, session)


class Source(RoleTest):
    def test_keys_in_config(self):
        self.roles("source_profile = base", self.base())
        got = self.agree("profile default (role)", "ROLE")
        self.assertAlmostEqual(time.time() + 3600, got["expires"], delta=60)

    def test_what_is_sent(self):
        self.roles("source_profile = base\nexternal_id = x&y=z é\nrole_session_name = it=me\n"
                   "duration_seconds = 1800", self.base(session=True))
        self.agree("profile default (role)", "ROLE")
        ours, theirs = self.server.requests[0], self.server.requests[-1]
        self.assertEqual({"Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": arn("ROLE"),
                          "RoleSessionName": "it=me", "ExternalId": "x&y=z é",
                          "DurationSeconds": "1800"}, ours.form)
        self.assertEqual(token("AKBASE"), ours.headers["X-Amz-Security-Token"])
        self.assertIn(f"/{REGION}/sts/aws4_request", ours.headers["Authorization"])
        if not NO_JUDGE:
            self.assertEqual(theirs.form, ours.form)
            for name in ("Content-Type", "Host", "X-Amz-Security-Token"):
                self.assertEqual(theirs.headers[name], ours.headers[name])
            # Signatures differ by the order of the form's members: the server checks them.
            self.assertEqual(theirs.headers["Authorization"].split("Signature")[0],
                             ours.headers["Authorization"].split("Signature")[0])

    def test_usual_session_name(self):
        self.roles("source_profile = base", self.base())
        self.found()
        self.assertRegex(self.server.last(*STS).form["RoleSessionName"], r"^itemfs-\d{10}$")

    def test_region_of_the_profile(self):
        del self.env["AWS_REGION"], self.env["AWS_DEFAULT_REGION"]
        self.roles("source_profile = base\nregion = ap-south-1",
                   self.base() + "region = us-west-2\n")
        self.agree("profile default (role)", "ROLE")
        for request in self.server.requests:
            self.assertIn("/ap-south-1/sts/aws4_request", request.headers["Authorization"])

    def test_keys_in_credentials_file(self):
        self.roles("source_profile = base")
        self.server.known["AKFILE"] = token("AKFILE")
        self.credentials("[base]\n" + self.keys("AKFILE", True))
        self.agree("profile default (role)", "ROLE")

    def test_explicit_profile(self):
        self.config(f"[profile r]\nrole_arn = {arn('R')}\nsource_profile = base\n" + self.base())
        self.set_keys("AKENV")
        self.agree("profile r (role)", "R", profile="r")
        self.env["AWS_PROFILE"] = "r"
        self.agree("environment", "AKENV", session=False)

    def test_process(self):
        self.server.known["AKPROCESS"] = token("AKPROCESS")
        command = self.write("command", f"#!/bin/sh\necho '{process_keys('AKPROCESS')}'\n", 0o700)
        self.roles("source_profile = base", f"[profile base]\ncredential_process = {command}\n")
        self.agree("profile default (role)", "ROLE")

    def test_sso(self):
        self.server.known["AKSSO"] = token("AKSSO")
        self.server.routes["GET", "/federation/credentials"] = sso_keys("AKSSO")
        self.login("https://start")
        self.roles("source_profile = base", "[profile base]\nsso_role_name = r\nsso_account_id = 1\n"
                   "sso_region = us-east-1\nsso_start_url = https://start\n")
        self.agree("profile default (role)", "ROLE")

    def test_web_identity(self):
        self.roles("source_profile = base", f"[profile base]\nrole_arn = {arn('WEB')}\n"
                   f"web_identity_token_file = {self.write('web', token('web'))}\n")
        self.agree("profile default (role)", "ROLE")

    def test_role_of_a_role_of_a_role(self):
        self.roles("source_profile = two", f"[profile two]\nrole_arn = {arn('TWO')}\n"
                   f"source_profile = three\n[profile three]\nrole_arn = {arn('THREE')}\n"
                   "source_profile = base\n", self.base())
        self.agree("profile default (role)", "ROLE")
        self.assertEqual([arn("THREE"), arn("TWO"), arn("ROLE")],
                         [r.form["RoleArn"] for r in self.server.requests[:3]])

    def test_itself(self):
        self.server.known["AKSELF"] = None
        self.roles("source_profile = default\n" + self.keys("AKSELF"))
        self.agree("profile default (role)", "ROLE")

    def test_keys_go_before_the_role_of_a_source(self):
        self.roles("source_profile = base", self.base() + f"role_arn = {arn('NOT')}\n"
                   "source_profile = nowhere\n")
        self.agree("profile default (role)", "ROLE")
        self.assertNotIn(arn("NOT"), [r.form["RoleArn"] for r in self.server.requests])

    def test_variables_do_not_reach_the_source(self):
        self.env |= {"AWS_WEB_IDENTITY_TOKEN_FILE": self.write("web", token("web")),
                     "AWS_ROLE_ARN": arn("WEB")}
        self.roles("source_profile = base", self.base())
        self.agree("profile default (role)", "ROLE")
        self.assertEqual({arn("ROLE")}, {r.form["RoleArn"] for r in self.server.requests})


class Named(RoleTest):
    """credential_source"""

    def test_environment(self):
        self.set_keys("AKENV", session=True)
        self.server.known["AKENV"] = token("AKENV")
        self.config(f"[profile r]\nrole_arn = {arn('ROLE')}\ncredential_source = Environment\n")
        self.agree("profile r (role)", "ROLE", profile="r")

    def test_container(self):
        self.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = self.server.url + "/container"
        self.server.routes["GET", "/container"] = metadata_keys("AKCONTAINER")
        self.server.known["AKCONTAINER"] = token("AKCONTAINER")
        self.roles("credential_source = EcsContainer")
        self.agree("profile default (role)", "ROLE")

    def test_instance(self):
        self.server.serve_imds(metadata_keys("AKIMDS"))
        self.server.known["AKIMDS"] = token("AKIMDS")
        self.roles("credential_source = Ec2InstanceMetadata")
        self.agree("profile default (role)", "ROLE")

    def test_nothing_there(self):
        for source, exception in (("Environment", "CredentialRetrievalError"),
                                  ("EcsContainer", "CredentialRetrievalError")):
            self.roles(f"credential_source = {source}")
            self.refuse("EACCES", f'^the profile "default" has the credential_source {source}, '
                        "which has none$", exception)
        self.roles("credential_source = Ec2InstanceMetadata")
        self.refuse("EACCES", r"^credentials of profile default \(role\): credentials of instance "
                    "metadata: /latest/api/token gives HTTP 404$", "CredentialRetrievalError")
        self.env["AWS_EC2_METADATA_DISABLED"] = "True"
        self.refuse("EACCES", "has the credential_source Ec2InstanceMetadata, which has none$",
                    "CredentialRetrievalError")


class Wrong(RoleTest):
    def test_settings(self):
        invalid, partial, loop = ("InvalidConfigError", "PartialCredentialsError",
                                  "InfiniteLoopConfigError")
        for settings, code, message, exception in (
                ("", "EINVAL", "needs a source_profile or credential_source$", partial),
                ("source_profile = base\ncredential_source = Environment", "EINVAL",
                 "needs only one of source_profile or credential_source$", invalid),
                ("source_profile = not-there", "EINVAL",
                 'the source_profile "not-there", which is not there$', invalid),
                ("credential_source = environment", "EINVAL",
                 "there are Environment, EcsContainer and Ec2InstanceMetadata$", invalid),
                ("source_profile = default", "EINVAL", "which leads back to it$", loop),
                ("source_profile = a", "EINVAL",
                 'the profile "b" has the source_profile "a", which leads back to it$', loop),
                ("source_profile = empty", "EACCES",
                 'the profile "empty", a source_profile, has no credentials$', invalid)):
            self.roles(settings, f"[profile a]\nrole_arn = {arn('A')}\nsource_profile = b\n",
                       f"[profile b]\nrole_arn = {arn('B')}\nsource_profile = a\n",
                       "[profile empty]\nregion = x\n", self.base())
            with self.subTest(settings):
                self.refuse(code, message, exception)
        self.assertEqual([], self.server.requests)

    def test_ours_only(self):
        for settings, message in (
                ("source_profile = base\nmfa_serial = arn:aws:iam::1:mfa/me",
                 r"needs an MFA code \(mfa_serial\), which cannot be asked for: use "),
                ("source_profile = base\nduration_seconds = long",
                 "^duration_seconds is no number of seconds$")):
            self.roles(settings, self.base())
            self.assertRegex(self.error()[1], message)

    def test_refused(self):
        self.roles("source_profile = base", self.base())
        self.server.routes[STS] = 403, sts_error(
            "AccessDenied", "User: arn:aws:iam::1:user/&lt;me&gt; is not &quot;allowed&quot; &amp;amp;")
        self.refuse("EACCES", r"^credentials of profile default \(role\): STS refuses: AccessDenied: "
                    r'User: arn:aws:iam::1:user/<me> is not "allowed" &amp;$', "ClientError")

    def test_wrong_signature_repeats_nothing(self):
        self.roles("source_profile = base", self.base(session=True))
        self.server.routes[STS] = 403, sts_error(
            "SignatureDoesNotMatch", f"should have been x-amz-security-token:{token('AKBASE')}")
        self.refuse("EACCES", "STS refuses: SignatureDoesNotMatch$", "ClientError")

    def test_trouble(self):
        self.roles("source_profile = base", self.base())
        for trouble in ((500, ""), (503, sts_error("ServiceUnavailable", "later")), (429, "")):
            self.server.routes[STS] = [trouble, trouble, self.server.sts]
            self.assertKeys("ROLE", self.found()[1])
        self.server.routes[STS] = 503, sts_error("ServiceUnavailable", "later")
        self.server.requests.clear()
        code, text = self.error()
        self.assertEqual("EIO", code)
        self.assertIn("STS refuses: ServiceUnavailable: later", text)
        self.assertEqual(3, self.server.count(*STS))
        self.server.routes[STS] = 404, "<html>"
        self.assertEqual("EACCES", self.error()[0])
        self.env["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:1"
        self.assertEqual("EHOSTUNREACH", self.error()[0])

    def test_wrong_clock(self):
        """The answer's Date says what time it is; signed again, it is taken."""
        self.roles("source_profile = base", self.base())

        def on_time(request):
            signed = calendar.timegm(time.strptime(request.headers["X-Amz-Date"],
                                                   "%Y%m%dT%H%M%SZ"))
            if abs(signed - time.time()) > 300:
                return 403, sts_error("SignatureDoesNotMatch", "Signature expired")
            return self.server.sts(request)

        self.server.routes[STS] = on_time
        for wrong in ("+1000", "+-1000000"):
            self.server.requests.clear()
            self.assertEqual("ROLE", self.show(wrong, "open", "get")[1]["access_key"])
            self.assertEqual(2, self.server.count(*STS))
        self.server.requests.clear()
        self.server.routes[STS] = 403, sts_error("AccessDenied", "no")
        self.assertEqual("EACCES", self.error()[0])
        self.assertEqual(1, self.server.count(*STS))

    def test_answers_that_are_none(self):
        self.roles("source_profile = base", self.base())
        whole = sts_answer("AssumeRole", "ROLE")
        for answer, message in (
                ("", "there are no Credentials"),
                ("<html>", "there are no Credentials"),
                (whole.replace("</Credentials>", ""), "there are no Credentials"),
                (whole.replace("SecretAccessKey>", "Secret>"), "are not complete"),
                (whole.replace("SessionToken>", "Token>"), "are not complete"),
                (whole.replace("Expiration>", "Expires>"), "there is no Expiration"),
                (whole.replace("<Expiration>2", "<Expiration>x"), "there is no Expiration"),
                (whole.replace(token("ROLE"), MARK * 9000), "SessionToken in the answer is too long"),
                (whole.replace(token("ROLE"), MARK + "\n"), "holds what no token can")):
            self.server.routes[STS] = answer
            code, text = self.error()
            self.assertIn(message, text)
            self.assertEqual("EACCES" if "no token can" in message else "EIO", code)

    def test_signer_that_has_expired(self):
        """Once, the source's credentials are fetched anew."""
        self.roles("source_profile = base", "[profile base]\ncredential_process = ./command\n")
        expired = 403, sts_error("ExpiredToken", "The security token included is expired")
        count = "echo x >>runs; n=$(wc -l <runs)"
        keys = process_keys("AK$n").replace('"', '\\"')
        self.write("command", f"#!/bin/sh\n{count}\necho \"{keys}\"\n", 0o700)
        self.server.known["AK2"] = token("AK2")
        self.server.routes[STS] = [expired, self.server.sts]
        self.assertKeys("ROLE", self.found()[1])
        self.server.routes[STS] = expired
        self.server.requests.clear()
        self.assertRegex(self.error()[1], "STS refuses: ExpiredToken: The security token included")
        self.assertEqual(2, self.server.count(*STS))

    def test_refreshed(self):
        """With the source's credentials that are held, when they are good."""
        self.roles("source_profile = base", "[profile base]\ncredential_process = ./command\n")
        self.server.known["AK"] = token("AK")
        keys = process_keys("AK", time.time() + 9000)
        self.write("command", f"#!/bin/sh\necho x >>runs\necho '{keys}'\n", 0o700)
        self.server.routes[STS] = [lambda r: sts_answer("AssumeRole", "ONE", time.time() + 3600),
                                   lambda r: sts_answer("AssumeRole", "TWO", time.time() + 7200)]
        lines = self.show("open", "get", "+2600", "get", "+200", "get")
        self.assertEqual(["ONE", "ONE", "TWO"], [line["access_key"] for line in lines[1:]])
        with open(self.path("runs")) as file:
            self.assertEqual("x\n", file.read())


class WebIdentity(RoleTest):
    def setUp(self):
        super().setUp()
        self.file = self.write("web", token("web"))

    def set_variables(self, name="ENVROLE"):
        self.env |= {"AWS_WEB_IDENTITY_TOKEN_FILE": self.file, "AWS_ROLE_ARN": arn(name),
                     "AWS_ROLE_SESSION_NAME": "session"}

    def test_variables(self):
        self.set_variables()
        self.agree("web identity", "ENVROLE")
        for request in self.server.requests:
            self.assertEqual({"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15",
                              "RoleArn": arn("ENVROLE"), "RoleSessionName": "session",
                              "WebIdentityToken": token("web")}, request.form)

    def test_before_static_keys_of_files(self):
        self.set_variables()
        self.credentials("[default]\n" + self.keys("AKFILE"))
        self.agree("web identity", "ENVROLE")

    def test_profile(self):
        self.roles(f"web_identity_token_file = {self.file}\nrole_session_name = mine")
        self.agree("profile default (web identity)", "ROLE")
        self.assertEqual({"mine"}, {r.form["RoleSessionName"] for r in self.server.requests})

    def test_variables_and_profile_mixed(self):
        self.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = self.file
        self.roles("region = x\nsource_profile = nobody\nweb_identity_token_file = /not/there")
        self.agree("web identity", "ROLE")
        self.env["AWS_ROLE_ARN"] = arn("OTHER")
        self.agree("web identity", "OTHER")

    def test_explicit_profile_ignores_variables(self):
        self.set_variables()
        self.config("[profile dev]\n" + self.keys("AKDEV"))
        self.agree("profile dev (config file)", "AKDEV", profile="dev", session=False)
        self.env["AWS_PROFILE"] = "dev"
        self.agree("web identity", "ENVROLE")

    def test_no_role(self):
        self.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = self.file
        self.refuse("EINVAL", "but no role: set AWS_ROLE_ARN, or role_arn in the profile ",
                    "InvalidConfigError")

    def test_file(self):
        self.set_variables()
        self.write("web", token("web") + "\n")
        self.assertKeys("ENVROLE", self.found()[1])
        self.assertEqual(token("web"), self.server.last(*STS).form["WebIdentityToken"])
        self.write("web", " \n")
        self.assertRegex(self.error()[1], r"^credentials of web identity: .*/web: is empty$")
        os.remove(self.file)
        self.refuse("EACCES", r"^credentials of web identity: .*/web: No such file or directory$",
                    "FileNotFoundError")

    def test_long_token(self):
        self.set_variables()
        self.write("web", MARK + "+/=é" * 10000)
        self.assertKeys("ENVROLE", self.found()[1])
        self.write("web", MARK * 11000)
        self.assertRegex(self.error()[1], "/web: larger than 65536 bytes$")

    def test_refused(self):
        self.set_variables()
        self.write("web", "nonsense")
        self.refuse("EACCES", "^credentials of web identity: STS refuses: InvalidIdentityToken: "
                    "no such token$", "InvalidIdentityTokenException")

    def test_token_is_read_anew(self):
        self.set_variables()
        with self.stepping("open", "get", "pause", "+3000", "get") as (lines, go_on):
            lines(2)
            self.write("web", token("new"))
            go_on()
            lines(1)
        self.assertEqual([token("web"), token("new")],
                         [r.form["WebIdentityToken"] for r in self.server.requests])


class Place(RoleTest):
    """Where STS is, when nothing says so: a proxy is asked for the host."""

    def setUp(self):
        super().setUp()
        del self.env["AWS_ENDPOINT_URL_STS"]
        self.roles("source_profile = base", self.base())
        self.env["https_proxy"] = self.server.url

    def hosts(self):
        self.server.requests.clear()
        code, text = self.error()
        self.assertEqual("EHOSTUNREACH", code, text)
        ours = {r.path for r in self.server.requests}
        if not NO_JUDGE:
            self.server.requests.clear()
            self.env["AWS_MAX_ATTEMPTS"] = "1"
            self.judged()
            self.assertEqual({r.path for r in self.server.requests}, ours)
        return ours

    def test_hosts(self):
        self.server.routes["CONNECT", f"sts.{REGION}.amazonaws.com:443"] = 403, ""
        self.assertEqual({f"sts.{REGION}.amazonaws.com:443"}, self.hosts())
        self.env["AWS_DEFAULT_REGION"] = self.env["AWS_REGION"] = "cn-north-1"
        self.assertEqual({"sts.cn-north-1.amazonaws.com.cn:443"}, self.hosts())
        self.env["AWS_USE_FIPS_ENDPOINT"] = "true"
        self.env["AWS_DEFAULT_REGION"] = self.env["AWS_REGION"] = "us-west-2"
        self.assertEqual({"sts-fips.us-west-2.amazonaws.com:443"}, self.hosts())

    def test_services_section(self):
        self.roles("source_profile = base\nservices = s\nendpoint_url = http://127.0.0.1:1",
                   f"[services s]\nsts =\n  endpoint_url = {self.server.url}/\n", self.base())
        self.agree("profile default (role)", "ROLE")
        self.env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
        self.assertEqual({f"sts.{REGION}.amazonaws.com:443"}, self.hosts())
