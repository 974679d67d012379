# SPDX-License-Identifier: MIT
"""Writes sigv4.json: requests, and what botocore signs them with.

usage: make_sigv4.py >sigv4.json

Needs botocore; nothing is sent anywhere.
"""

import datetime
import json
import sys
import unittest.mock

import botocore.auth
import botocore.awsrequest
import botocore.credentials

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
JSON_TYPE = "application/x-amz-json-1.0"
FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"


def case(name, *, url="https://dynamodb.eu-west-1.amazonaws.com/", host=None, token=None,
         region="eu-west-1", service="dynamodb", content_type=JSON_TYPE,
         target="DynamoDB_20120810.GetItem", body='{"TableName": "t"}', now=1704456000,
         access_key="AKIDEXAMPLE", secret_key=SECRET):
    """HOST is what the request has as its Host header, told to the C side; botocore finds its own."""
    headers = {"Content-Type": content_type}
    if target:
        headers["X-Amz-Target"] = target
    request = botocore.awsrequest.AWSRequest("POST", url, headers, body.encode())
    keys = botocore.credentials.Credentials(access_key, secret_key, token)
    signer = botocore.auth.SigV4Auth(keys, service, region)
    when = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    with unittest.mock.patch("botocore.auth.get_current_datetime", lambda: when):
        signer.add_auth(request)
    made = {"name": name, "access_key": access_key, "secret_key": secret_key, "region": region,
            "service": service, "host": host or url.split("/")[2], "content_type": content_type,
            "target": target, "body": body, "now": now, "date": request.headers["X-Amz-Date"],
            "authorization": request.headers["Authorization"]}
    if token:
        made["session_token"] = token
    return made


CASES = [
    case("plain"),
    case("session token", token="FwoGZXIvYXdzEJr//////////wEaD+example/token=="),
    case("a port of its own", url="http://127.0.0.1:8000/"),
    case("the port of the scheme", url="https://dynamodb.eu-west-1.amazonaws.com:443/",
         host="dynamodb.eu-west-1.amazonaws.com"),
    case("an IPv6 address", url="http://[::1]:8000/"),
    case("spaces in the target", target="  DynamoDB_20120810.Get \t  Item "),
    case("UTF-8 in target and body", target="DynamoDB_20120810.Größe", body='{"Tablé": "日本 😀"}'),
    case("an empty body", body=""),
    case("a long body", body='{"x": "' + "0123456789" * 2000 + '"}'),
    case("a body with lines", body="a\nb\r\n\tc\0d"),
    case("us-east-1", region="us-east-1", url="https://dynamodb.us-east-1.amazonaws.com/"),
    case("cn-north-1", region="cn-north-1", url="https://dynamodb.cn-north-1.amazonaws.com.cn/"),
    case("us-gov-west-1", region="us-gov-west-1",
         url="https://dynamodb.us-gov-west-1.amazonaws.com/"),
    case("any region", region="local", url="http://localhost:4567/"),
    case("streams", target="DynamoDBStreams_20120810.GetRecords",
         url="https://streams.dynamodb.eu-west-1.amazonaws.com/"),
    case("a leap day", now=1709164800),
    case("the last second of a year", now=1735689599),
    case("the epoch", now=0),
    case("after 2038", now=4102444800),
    case("a short secret", secret_key="k"),
    case("a secret longer than a block of SHA-256", secret_key=SECRET * 3),
    case("a long token", token="t0ken+/=" * 300),
    case("sts", service="sts", target="", content_type=FORM_TYPE,
         url="https://sts.eu-west-1.amazonaws.com/",
         body="Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"),
    case("sts with a token", service="sts", target="", content_type=FORM_TYPE, token="t/o+k=",
         url="https://sts.us-east-1.amazonaws.com/", region="us-east-1", body="Action=x"),
]

json.dump(CASES, sys.stdout, indent=1, ensure_ascii=False)
print()
