# SPDX-License-Identifier: MIT
"""Keys that stand somewhere, the order of the chain, and what ends it."""

import os
import unittest

from chain import (MARK, NO_JUDGE, ChainTest, metadata_keys, process_keys, secret, sso_keys,
                   token)


class Judge(unittest.TestCase):
    @unittest.skipIf(NO_JUDGE, f"botocore does not judge: {NO_JUDGE}")
    def test_botocore_judges(self):
        pass


class Environment(ChainTest):
    def test_keys(self):
        self.set_keys("AKENV")
        got = self.agree("environment", "AKENV", session=False)
        self.assertEqual(0, got["expires"])

    def test_session_token(self):
        self.set_keys("AKENV", session=True)
        self.agree("environment", "AKENV")

    def test_old_name_of_the_token_goes_first(self):
        self.set_keys("AKENV", session=True)
        self.env["AWS_SESSION_TOKEN"] = "another"
        self.env["AWS_SECURITY_TOKEN"] = token("AKENV")
        self.agree("environment", "AKENV")

    def test_expiry(self):
        self.set_keys("AKENV", session=True)
        self.env["AWS_CREDENTIAL_EXPIRATION"] = "2099-01-02T03:04:05Z"
        self.assertEqual(4071006245, self.agree("environment", "AKENV")["expires"])
        self.env["AWS_CREDENTIAL_EXPIRATION"] = "2099-01-02T04:04:05.678+01:00"
        self.assertEqual(4071006245, self.found()[1]["expires"])
        self.env["AWS_CREDENTIAL_EXPIRATION"] = "2020-01-02T03:04:05Z"
        self.refuse("EACCES", "^credentials of environment: they have expired$", "RuntimeError")
        self.env["AWS_CREDENTIAL_EXPIRATION"] = "soon"
        self.refuse("EINVAL", r"^AWS_CREDENTIAL_EXPIRATION is no time", "ParserError")

    def test_id_without_secret(self):
        self.env["AWS_ACCESS_KEY_ID"] = "AKENV"
        self.refuse("EACCES", "^AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not$",
                    "PartialCredentialsError")
        self.env["AWS_SECRET_ACCESS_KEY"] = ""
        self.refuse("EACCES", "AWS_SECRET_ACCESS_KEY is not$", "PartialCredentialsError")

    def test_secret_without_id_counts_for_nothing(self):
        self.env["AWS_SECRET_ACCESS_KEY"] = secret("x")
        self.credentials("[default]\n" + self.keys("AKFILE"))
        self.agree("profile default (credentials file)", "AKFILE", session=False)

    def test_empty_counts_as_unset(self):
        self.env |= {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": secret("x")}
        self.credentials("[default]\n" + self.keys("AKFILE"))
        self.agree("profile default (credentials file)", "AKFILE", session=False)
        self.set_keys("AKENV")
        self.env |= {"AWS_SESSION_TOKEN": "", "AWS_SECURITY_TOKEN": ""}
        self.agree("environment", "AKENV", session=False)

    def test_what_no_header_may_hold(self):
        for name, value in (("AWS_ACCESS_KEY_ID", "A\nX-Evil: 1"), ("AWS_ACCESS_KEY_ID", "A B"),
                            ("AWS_SESSION_TOKEN", f"{MARK}\r\n"), ("AWS_SESSION_TOKEN", f"{MARK}é")):
            self.set_keys("AKENV", session=True)
            self.env[name] = value
            code, text = self.error()
            self.assertEqual("EACCES", code)
            self.assertIn("holds what no", text)


class Files(ChainTest):
    def test_credentials_file(self):
        self.credentials("[default]\n" + self.keys("AKDEFAULT") + "[dev]\n" + self.keys("AKDEV", True))
        self.agree("profile default (credentials file)", "AKDEFAULT", session=False)
        self.agree("profile dev (credentials file)", "AKDEV", profile="dev")
        self.env["AWS_PROFILE"] = "dev"
        self.agree("profile dev (credentials file)", "AKDEV")
        self.agree("profile default (credentials file)", "AKDEFAULT", profile="default",
                   session=False)

    def test_old_name_of_the_token_goes_first(self):
        self.credentials("[default]\n" + self.keys("AKFILE") + "aws_session_token = other\n"
                         f"aws_security_token = {token('AKFILE')}\n")
        self.agree("profile default (credentials file)", "AKFILE")

    def test_both_variables_of_the_profile(self):
        self.credentials("[one]\n" + self.keys("AKONE") + "[two]\n" + self.keys("AKTWO"))
        self.env |= {"AWS_PROFILE": "one", "AWS_DEFAULT_PROFILE": "two"}
        self.agree("profile two (credentials file)", "AKTWO", session=False)
        self.env["AWS_DEFAULT_PROFILE"] = ""
        self.assertEqual("profile one (credentials file)", self.found()[0])

    def test_named_files(self):
        self.env["AWS_SHARED_CREDENTIALS_FILE"] = self.write("elsewhere", "[a]\n" + self.keys("AK1"))
        self.env["AWS_CONFIG_FILE"] = "~/config"
        self.write("config", "[profile b]\n" + self.keys("AK2"))
        self.agree("profile a (credentials file)", "AK1", profile="a", session=False)
        self.agree("profile b (config file)", "AK2", profile="b", session=False)

    def test_order_of_the_files_and_the_process(self):
        self.config(f"[default]\n{self.keys('AKCONFIG')}")
        self.agree("profile default (config file)", "AKCONFIG", session=False)
        command = self.write("command", f"#!/bin/sh\necho '{process_keys('AKPROCESS')}'\n", 0o700)
        self.config(f"[default]\n{self.keys('AKCONFIG')}credential_process = {command}\n")
        self.agree("profile default (process)", "AKPROCESS")
        self.credentials("[default]\n" + self.keys("AKFILE"))
        self.agree("profile default (credentials file)", "AKFILE", session=False)

    def test_explicit_profile_goes_before_environment(self):
        self.set_keys("AKENV")
        self.credentials("[dev]\n" + self.keys("AKDEV"))
        self.agree("profile dev (credentials file)", "AKDEV", profile="dev", session=False)
        self.env["AWS_PROFILE"] = "dev"
        self.agree("environment", "AKENV", session=False)

    def test_unknown_profile(self):
        self.config("[profile other]\nregion = x\n")
        message = (rf'^there is no profile "dev" in {self.dir}/.aws/config or '
                   rf"{self.dir}/.aws/credentials$")
        self.refuse("EINVAL", message, "ProfileNotFound", profile="dev")
        self.env["AWS_PROFILE"] = "dev"
        self.set_keys("AKENV")
        code, text = self.error()
        self.assertEqual("EINVAL", code)
        self.assertRegex(text, message)
        self.env["AWS_PROFILE"] = "default"
        self.assertEqual("EINVAL", self.error()[0])

    def test_odd_names(self):
        self.config("[profile \"two words\"]\n" + self.keys("AKTWO"))
        self.credentials("[größe]\n" + self.keys("AKBIG"))
        self.agree("profile two words (config file)", "AKTWO", profile="two words", session=False)
        self.agree("profile größe (credentials file)", "AKBIG", profile="größe", session=False)

    def test_id_without_secret(self):
        self.credentials("[default]\naws_access_key_id = AK\n")
        self.refuse("EACCES", r"^credentials of profile default \(credentials file\): .*/\.aws/"
                    "credentials has no aws_secret_access_key for it$", "PartialCredentialsError")
        os.remove(self.path(".aws/credentials"))
        self.config("[default]\naws_access_key_id = AK\n")
        self.refuse("EACCES", r"/\.aws/config has no aws_secret_access_key for it$",
                    "PartialCredentialsError")

    def test_keys_of_a_profile_are_not_mixed(self):
        self.config("[default]\naws_secret_access_key = " + secret("x") + "\n")
        self.credentials("[default]\naws_access_key_id = AK\n")
        self.refuse("EACCES", "has no aws_secret_access_key for it$", "PartialCredentialsError")

    def test_empty_id(self):
        self.credentials(f"[default]\naws_access_key_id =\naws_secret_access_key = {secret('x')}\n")
        self.assertEqual("EACCES", self.error()[0])

    def test_broken_files(self):
        self.config(f"[default]\nregion = x\n{secret('x')[:-1]}\n")
        self.refuse("EINVAL", r"/\.aws/config:3: the line is no setting \(KEY = VALUE\)$",
                    "ConfigParseError")
        self.config("")
        self.credentials("[default]\n" + self.keys("A") + "[default]\n")
        self.refuse("EINVAL", r"/\.aws/credentials:4: the section stands there twice$",
                    "ConfigParseError")
        self.credentials(b"[default]\nx = \xff\n")
        self.refuse("EINVAL", r"/\.aws/credentials: is no text", "ConfigParseError")

    def test_unreadable_file_is_told(self):
        self.env["AWS_CONFIG_FILE"] = "/proc/self/mem"
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        code, text = self.error()
        self.assertEqual("EACCES", code)
        self.assertIn("; /proc/self/mem: Input/output error", text)
        self.assertIn(" (/proc/self/mem: Input/output error)", self.error("--profile", "dev")[1])
        self.set_keys("AKENV")
        self.assertEqual("environment", self.found()[0])

    def test_nothing(self):
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        self.refuse("EACCES", '^there are no credentials: none in the environment, the profile '
                    '"default", a container\'s or instance\'s metadata$', None)

    def test_renewed_in_the_file(self):
        self.credentials("[default]\n" + self.keys("AK1", True))
        with self.stepping("open", "get", "pause", "get", "expired", "get", "pause", "expired",
                           "get") as (lines, go_on):
            self.assertEqual("AK1", lines(2)[1]["access_key"])
            self.credentials("[default]\n" + self.keys("AK2", True))
            go_on()
            self.assertEqual(["AK1", "AK2"], [line["access_key"] for line in lines(2)])
            self.credentials("[default]\nregion = x\n")
            go_on()
            self.assertEqual("EACCES", lines(1)[0]["error"])

    def test_aws_login(self):
        self.config("[default]\nlogin_session = arn:aws:iam::1:user/x\n" + self.keys("AKCONFIG"))
        code, text = self.error()
        self.assertEqual("EACCES", code)
        self.assertIn('"aws login", which is not supported', text)
        self.credentials("[default]\n" + self.keys("AKFILE"))
        self.agree("profile default (credentials file)", "AKFILE", session=False)


class Order(ChainTest):
    """Everything is set at once; the first links are taken away one by one."""

    def test_order(self):
        full = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.server.url + "/container",
                "AWS_ROLE_ARN": "arn:aws:iam::1:role/WEBROLE",
                "AWS_WEB_IDENTITY_TOKEN_FILE": self.write("web", token("web"))}
        self.env |= full
        self.set_keys("AKENV")
        self.server.known["AKBASE"] = None
        self.server.routes["GET", "/container"] = metadata_keys("AKCONTAINER")
        self.server.serve_imds(metadata_keys("AKIMDS"))
        self.server.routes["GET", "/federation/credentials"] = sso_keys("AKSSO")
        self.login("https://start")
        command = self.write("command", f"#!/bin/sh\necho '{process_keys('AKPROCESS')}'\n", 0o700)
        role = "role_arn = arn:aws:iam::1:role/ROLE\nsource_profile = base\n"
        sso = ("sso_role_name = r\nsso_account_id = 1\nsso_region = us-east-1\n"
               "sso_start_url = https://start\n")
        process = f"credential_process = {command}\n"
        base = "[profile base]\n" + self.keys("AKBASE")
        config = lambda *parts: self.config("[default]\n" + "".join(parts) + base)
        keys = self.keys("AKCONFIG")
        self.credentials("[default]\n" + self.keys("AKFILE"))
        config(role, sso, process, keys)
        self.agree("environment", "AKENV", session=False)
        del self.env["AWS_ACCESS_KEY_ID"]
        self.agree("profile default (role)", "ROLE")
        config(sso, process, keys)
        self.agree("web identity", "WEBROLE")
        self.env.pop("AWS_WEB_IDENTITY_TOKEN_FILE")
        self.agree("profile default (SSO)", "AKSSO")
        config(process, keys)
        self.agree("profile default (credentials file)", "AKFILE", session=False)
        self.credentials("")
        self.agree("profile default (process)", "AKPROCESS")
        config(keys)
        self.agree("profile default (config file)", "AKCONFIG", session=False)
        config()
        self.agree("container", "AKCONTAINER")
        self.env.pop("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        self.agree("instance metadata", "AKIMDS")
