# SPDX-License-Identifier: MIT
"""Region and endpoint."""

from chain import NO_JUDGE, ChainTest, botocore, metadata_keys


class EndpointTest(ChainTest):
    def setUp(self):
        super().setUp()
        del self.env["AWS_REGION"], self.env["AWS_DEFAULT_REGION"]

    def resolved(self, *arguments, service="endpoint"):
        line, = self.show(*arguments, "endpoint")
        self.assertNotIn("error", line)
        return line["region"], line[service]

    def failure(self, *arguments):
        line, = self.show(*arguments, "endpoint")
        return line["error"], line["message"]

    def judged(self, profile=None, service="dynamodb"):
        with self.judging():
            session = botocore.session.Session(profile=profile)
            client = session.create_client(service, aws_access_key_id="x",
                                           aws_secret_access_key="y")
            return client.meta.region_name, client.meta.endpoint_url

    def agree(self, region, endpoint, profile=None):
        self.assertEqual((region, endpoint),
                         self.resolved(*(["--profile", profile] if profile else [])))
        if not NO_JUDGE:
            self.assertEqual((region, endpoint), self.judged(profile))


class Region(EndpointTest):
    def test_order(self):
        self.server.serve_imds(metadata_keys("AKI"))
        self.assertEqual(("ap-south-1", "https://dynamodb.ap-south-1.amazonaws.com"), self.resolved())
        self.config("[default]\nregion = eu-north-1\n[profile dev]\nregion = eu-south-1\n")
        self.agree("eu-north-1", "https://dynamodb.eu-north-1.amazonaws.com")
        self.agree("eu-south-1", "https://dynamodb.eu-south-1.amazonaws.com", profile="dev")
        self.env["AWS_PROFILE"] = "dev"
        self.agree("eu-south-1", "https://dynamodb.eu-south-1.amazonaws.com")
        self.env["AWS_DEFAULT_REGION"] = "us-east-2"
        self.agree("us-east-2", "https://dynamodb.us-east-2.amazonaws.com")
        self.env["AWS_REGION"] = "us-west-1"
        self.assertEqual("us-west-1", self.resolved()[0])
        self.env["AWS_REGION"] = ""
        self.agree("us-east-2", "https://dynamodb.us-east-2.amazonaws.com")
        self.assertEqual(("sa-east-1", "https://dynamodb.sa-east-1.amazonaws.com"),
                         self.resolved("--region", "sa-east-1"))

    def test_in_the_credentials_file(self):
        self.config("[default]\nregion = eu-north-1\n")
        self.credentials("[default]\nregion = eu-west-3\n")
        self.agree("eu-west-3", "https://dynamodb.eu-west-3.amazonaws.com")

    def test_none(self):
        message = 'there is no region: set AWS_REGION, or region in the profile "default"'
        self.assertEqual(("EINVAL", message), self.failure())
        self.env["AWS_EC2_METADATA_DISABLED"] = "true"
        self.assertEqual(("EINVAL", message), self.failure())
        self.assertEqual("EINVAL", self.failure("--endpoint", "http://localhost:8000")[0])

    def test_what_is_no_region(self):
        for region in ("eu west", "eu-west-1/", "x" * 64, "-a", "a-", "123", "a.b", "é", "a\r\nb"):
            code, text = self.failure("--region", region)
            self.assertEqual("EINVAL", code)
            self.assertIn("is no region", text)

    def test_any_with_an_endpoint(self):
        self.assertEqual(("local", "http://localhost:8000"),
                         self.resolved("--region", "local", "--endpoint", "http://localhost:8000"))

    def test_unknown_profile(self):
        self.assertEqual("EINVAL", self.failure("--profile", "dev")[0])


class Endpoint(EndpointTest):
    def setUp(self):
        super().setUp()
        self.env["AWS_DEFAULT_REGION"] = "eu-west-1"

    def test_order(self):
        self.config("[default]\nendpoint_url = http://profile:1\n")
        self.agree("eu-west-1", "http://profile:1")
        self.config("[default]\nendpoint_url = http://profile:1\nservices = s\n[services s]\n"
                    "sts =\n  endpoint_url = http://sts:1\n")
        self.agree("eu-west-1", "http://profile:1")
        self.config("[default]\nendpoint_url = http://profile:1\nservices = s\n[services s]\n"
                    "dynamodb =\n  endpoint_url = http://services:1\n")
        self.agree("eu-west-1", "http://services:1")
        self.env["AWS_ENDPOINT_URL"] = "http://all:1"
        self.agree("eu-west-1", "http://all:1")
        self.env["AWS_ENDPOINT_URL_DYNAMODB"] = "http://dynamodb:1"
        self.agree("eu-west-1", "http://dynamodb:1")
        self.assertEqual("https://option:1", self.resolved("--endpoint", "https://option:1")[1])

    def test_ignored(self):
        self.config("[default]\nendpoint_url = http://profile:1\n"
                    "ignore_configured_endpoint_urls = true\n")
        usual = "https://dynamodb.eu-west-1.amazonaws.com"
        self.agree("eu-west-1", usual)
        self.env |= {"AWS_ENDPOINT_URL": "http://a:1", "AWS_ENDPOINT_URL_DYNAMODB": "http://b:1"}
        self.agree("eu-west-1", usual)
        self.env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false"
        self.agree("eu-west-1", "http://b:1")
        self.env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "TRUE"
        self.agree("eu-west-1", usual)
        self.assertEqual("https://option:1", self.resolved("--endpoint", "https://option:1")[1])

    def test_empty_counts_as_unset(self):
        self.env |= {"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_DYNAMODB": ""}
        self.config("[default]\nendpoint_url =\n")
        self.assertEqual("https://dynamodb.eu-west-1.amazonaws.com", self.resolved()[1])

    def test_services_that_are_not_there(self):
        self.config("[default]\nservices = s\n")
        self.assertEqual(("EINVAL", "there is no [services s], which the profile \"default\" names"),
                         self.failure())
        if not NO_JUDGE:
            with self.assertRaises(botocore.exceptions.InvalidConfigError):
                self.judged()

    def test_partitions(self):
        """FIPS and dual stack, in a region of each partition and one that nobody knows."""
        for region in ("us-east-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1",
                       "us-isob-east-1", "us-isof-south-1", "eu-isoe-west-1", "eusc-de-east-1",
                       "us-isotope-1", "xx-new-9"):
            for fips in ("", "true"):
                for dual in ("", "True"):
                    self.env |= {"AWS_DEFAULT_REGION": region, "AWS_USE_FIPS_ENDPOINT": fips,
                                 "AWS_USE_DUALSTACK_ENDPOINT": dual}
                    with self.subTest(region=region, fips=fips, dual=dual):
                        found = [self.resolved(service=one)[1] for one in ("endpoint", "streams")]
                        if not NO_JUDGE:
                            self.assertEqual(self.ruled(region, bool(fips), bool(dual)), found)

    @staticmethod
    def ruled(region, fips, dual):
        """What the rules say that botocore goes by."""
        loader = botocore.session.Session().get_component("data_loader")
        found = [botocore.endpoint_provider.EndpointProvider(
            loader.load_service_model(service, "endpoint-rule-set-1"),
            loader.load_data("partitions")) for service in ("dynamodb", "dynamodbstreams")]
        return [rules.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=dual).url
                for rules in found]

    def test_streams(self):
        def agree(endpoint):
            self.assertEqual(("eu-west-1", endpoint), self.resolved(service="streams"))
            if not NO_JUDGE:
                self.assertEqual(("eu-west-1", endpoint), self.judged(service="dynamodbstreams"))
        self.env["AWS_ENDPOINT_URL_DYNAMODB"] = "http://items:1"
        agree("https://streams.dynamodb.eu-west-1.amazonaws.com")
        self.config("[default]\nendpoint_url = http://profile:1\nservices = s\n[services s]\n"
                    "dynamodb =\n  endpoint_url = http://items:2\n"
                    "dynamodb_streams =\n  endpoint_url = http://services:1\n")
        agree("http://services:1")
        self.env["AWS_ENDPOINT_URL"] = "http://all:1"
        agree("http://all:1")
        self.env["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] = "http://streams:1"
        agree("http://streams:1")
        self.assertEqual("http://items:1", self.resolved()[1])
        self.assertEqual("https://option:1", self.resolved("--endpoint", "https://option:1",
                                                           service="streams")[1])
        self.env["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] = "x"
        self.assertRegex(self.failure()[1], "^AWS_ENDPOINT_URL_DYNAMODB_STREAMS is no endpoint")

    def test_variants_in_the_profile(self):
        self.config("[default]\nuse_fips_endpoint = true\n")
        self.assertEqual("https://dynamodb-fips.eu-west-1.amazonaws.com", self.resolved()[1])
        self.config("[default]\nuse_dualstack_endpoint = true\n")
        self.assertEqual("https://dynamodb.eu-west-1.api.aws", self.resolved()[1])
        self.env["AWS_USE_DUALSTACK_ENDPOINT"] = "false"
        self.agree("eu-west-1", "https://dynamodb.eu-west-1.amazonaws.com")

    def test_forms(self):
        for given, endpoint in (("http://h/", "http://h"), ("HTTPS://h:443", "HTTPS://h:443"),
                                ("http://[::1]:8000/", "http://[::1]:8000"),
                                ("http://a-b_c.d:1", "http://a-b_c.d:1")):
            self.assertEqual(endpoint, self.resolved("--endpoint", given)[1])

    def test_what_is_no_endpoint(self):
        for url in ("localhost:8000", "ftp://h", "http://", "http:///", "https://h/path", "http://h?q",
                    "http://h#f", "http://me:s3cr3t@h", "http://h h", "http://h\r\nx", "http://:80",
                    "http://é", "http://h//", ""):
            code, text = self.failure("--endpoint", url)
            self.assertEqual("EINVAL", code, url)
            self.assertEqual("the endpoint is no endpoint: that is http(s)://HOST[:PORT]", text)
        self.env["AWS_ENDPOINT_URL"] = "http://me:s3cr3t@h"
        self.assertEqual("AWS_ENDPOINT_URL is no endpoint: that is http(s)://HOST[:PORT]",
                         self.failure()[1])
        self.env["AWS_ENDPOINT_URL_DYNAMODB"] = "x"
        self.assertRegex(self.failure()[1], "^AWS_ENDPOINT_URL_DYNAMODB is no endpoint")
        self.env |= {"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_DYNAMODB": ""}
        self.config("[default]\nendpoint_url = x\n")
        self.assertRegex(self.failure()[1], "^the profile's endpoint_url is no endpoint")
