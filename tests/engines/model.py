# SPDX-License-Identifier: MIT
"""What a request must be, by botocore's description of the two services and its own signer, so that
our tests cannot agree with our client where both are wrong.

Beyond what botocore checks: enumerations, patterns and upper bounds, base64, one type per attribute
value, numbers, and that an expression's names and values are all given and all used.
"""

import base64
import binascii
import calendar
import decimal
import functools
import json
import re
import time

import engines  # makes botocore importable
import wire

EXPRESSIONS = ("ConditionExpression", "FilterExpression", "KeyConditionExpression",
               "ProjectionExpression", "UpdateExpression")
# Members that hold what people store: no requests within.
DATA = {"Item", "Key", "Keys", "ExclusiveStartKey", "ExpressionAttributeNames",
        "ExpressionAttributeValues"}
PLACEHOLDER = {"ExpressionAttributeNames": re.compile(r"#[A-Za-z0-9_]+"),
               "ExpressionAttributeValues": re.compile(r":[A-Za-z0-9_]+")}
NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


@functools.lru_cache(maxsize=None)
def model(service):
    import botocore.session
    return botocore.session.Session().get_service_model(service)


def strict(data):
    """The JSON structure in DATA; ValueError for what a strict reader refuses."""
    def once(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"a name stands twice in one object: {[name for name, _ in pairs]}")
        return found

    def never(word):
        raise ValueError(f"{word} is no JSON")
    return json.loads(data.decode(), object_pairs_hook=once, parse_constant=never)


def complaints(request):
    """What is wrong with a call of DynamoDB or Streams: a list of texts."""
    found = []
    if (request.method, request.path) != ("POST", "/"):
        found.append(f"{request.method} {request.path} instead of POST /")
    if request.header("content-type") != wire.JSON_TYPE:
        found.append(f"Content-Type: {request.header('content-type')}")
    if request.header("expect") is not None:
        found.append(f"Expect: {request.header('expect')}")
    if request.header("host") is None:
        found.append("no Host")
    if request.service is None:
        return found + [f"X-Amz-Target: {request.header('x-amz-target')}"]
    described = model(request.service)
    if request.operation not in described.operation_names:
        return found + [f"{described.service_name} has no operation {request.operation}"]
    try:
        body = strict(request.body)
    except (ValueError, RecursionError) as error:
        return found + [f"the body: {error}"]
    if not isinstance(body, dict):
        return found + ["the body is no object"]
    shape = described.operation_model(request.operation).input_shape
    return found + botocore_complaints(body, shape) + walk(body, shape, "") + expressions(body, "")


def botocore_complaints(body, shape):
    import botocore.validate
    report = botocore.validate.ParamValidator().validate(body, shape)
    return [report.generate_report()] if report.has_errors() else []


def walk(value, shape, where):
    """Complaints beyond botocore's about VALUE at the path WHERE."""
    if value is None:
        return [f"{where}: null"]
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        found = one_type(value, where) if shape.name == "AttributeValue" else []
        for name, member in value.items():
            if name in shape.members:
                found += walk(member, shape.members[name], f"{where}.{name}")
        return found
    if kind == "map" and isinstance(value, dict):
        found = bounds(len(value), shape, where, "entries")
        for name, member in value.items():
            found += walk(name, shape.key, f"{where} key")
            found += walk(member, shape.value, f"{where}[{name!r}]")
        return found
    if kind == "list" and isinstance(value, list):
        found = bounds(len(value), shape, where, "elements")
        for place, member in enumerate(value):
            found += walk(member, shape.member, f"{where}[{place}]")
        return found
    return scalar(value, shape, where)


def scalar(value, shape, where):
    kind, limits = shape.type_name, shape.metadata
    if kind == "string" and isinstance(value, str):
        found = bounds(len(value), shape, where, "characters")
        if shape.enum and value not in shape.enum:
            found.append(f"{where}: {value!r} is none of {shape.enum}")
        if "pattern" in limits and not re.fullmatch(limits["pattern"], value):
            found.append(f"{where}: {value!r} does not match {limits['pattern']}")
        return found
    if kind == "blob":
        try:
            base64.b64decode(value if isinstance(value, str) else b"*", validate=True)
        except binascii.Error as error:
            return [f"{where}: not base64: {error}"]
        return []
    if kind in ("integer", "long"):
        if isinstance(value, bool) or not isinstance(value, int):
            return [f"{where}: {value!r} is no integer"]
        return bounds(value, shape, where, "as value")
    return []


def bounds(amount, shape, where, what):
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    bad = (low is not None and amount < low) or (high is not None and amount > high)
    return [f"{where}: {amount} {what}, allowed are {low} to {high}"] if bad else []


def one_type(value, where):
    """Complaints about an attribute value: {"S": ...} and its like."""
    if len(value) != 1:
        return [f"{where}: {sorted(value)} where one type must stand"]
    (kind, inner), = value.items()
    if kind == "NULL" and inner is not True:
        return [f"{where}: NULL is {inner!r}"]
    if kind in ("SS", "NS", "BS"):
        if not isinstance(inner, list) or not inner:
            return [f"{where}: an empty set"]
        same = [number(one) for one in inner] if kind == "NS" else inner
        if len(set(same)) != len(same):
            return [f"{where}: a value stands twice in the set"]
    bad = [one for one in {"N": [inner], "NS": inner}.get(kind, []) if number(one) is None]
    return [f"{where}: no number of DynamoDB: {one!r}" for one in bad]


def number(text):
    """The value of a number; None where DynamoDB would refuse it."""
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        return None
    value = decimal.Decimal(text)
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    if len(digits) > 38 or (value and not -130 <= value.adjusted() <= 125):
        return None
    return value


def expressions(body, where):
    """Complaints about placeholders that are used and not given, or given and not used. Each object
    that holds an expression has its own."""
    found = []
    for name, inner in body.items():
        for place, one in enumerate(inner if isinstance(inner, list) else [inner]):
            if isinstance(one, dict) and name not in DATA:
                found += expressions(one, f"{where}.{name}[{place}]")
    if "AttributesToGet" in body or "Expected" in body or "AttributeUpdates" in body:
        found.append(f"{where}: a parameter of the time before expressions")
    texts = [body[name] for name in EXPRESSIONS if isinstance(body.get(name), str)]
    if any(not text.strip() or len(text.encode("utf-8", "surrogatepass")) > 4096 for text in texts):
        found.append(f"{where}: an expression that is empty or longer than 4096 bytes")
    for name, pattern in PLACEHOLDER.items():
        given = set(body[name]) if isinstance(body.get(name), dict) else set()
        used = set(pattern.findall(" ".join(texts)))
        if given != used:
            found.append(f"{where}: {name}: not given {sorted(used - given)}, "
                         f"not used {sorted(given - used)}")
    return found


# Signatures.

SKEW_MAX = 15 * 60  # seconds
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request *, *"
    r"SignedHeaders=([a-z0-9;-]+) *, *Signature=([0-9a-f]{64})")
MUST_SIGN = {"host", "x-amz-date", "x-amz-target", "content-type"}


def signature_error(request, keys, now):
    """(error name, message) where the service would refuse the signature; None where it holds.
    KEYS: access key -> secret, or (secret, session token). NOW: epoch seconds of the server."""
    given = request.header("authorization")
    if not given:
        return "MissingAuthenticationTokenException", "Request is missing Authentication Token"
    parts = AUTHORIZATION.fullmatch(given)
    stamp = request.header("x-amz-date") or ""
    if not parts or not re.fullmatch(r"\d{8}T\d{6}Z", stamp):
        return "IncompleteSignatureException", f"{given} with X-Amz-Date {stamp}"
    access, day, region, service, signed, signature = parts.groups()
    known = keys.get(access)
    secret, token = known if isinstance(known, tuple) else (known, None)
    if secret is None or request.header("x-amz-security-token") != token:
        return "UnrecognizedClientException", "The security token in the request is invalid."
    age = now - calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))
    if abs(age) > SKEW_MAX:
        word = "expired" if age > 0 else "not yet current"
        return "InvalidSignatureException", f"Signature {word}: {stamp}"
    names = signed.split(";")
    must = MUST_SIGN | ({"x-amz-security-token"} if token else set())
    if names != sorted(set(names)) or not must <= set(names):
        return "InvalidSignatureException", f"signed headers {signed}"
    if service != "dynamodb" or day != stamp[:8]:
        return "InvalidSignatureException", f"the scope {day}/{region}/{service}"
    if signature != sign(request, names, stamp, (access, secret, token), region):
        return "InvalidSignatureException", "The request signature we calculated does not match"
    return None


def sign(request, names, stamp, keys, region):
    """The signature that botocore gives such a request."""
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
    signer = botocore.auth.SigV4Auth(botocore.credentials.Credentials(*keys), "dynamodb", region)
    same = botocore.awsrequest.AWSRequest(
        request.method, f"http://{request.header('host')}{request.path}", data=request.body,
        headers={name: request.header(name, "") for name in names})
    same.context["timestamp"] = stamp
    text = signer.string_to_sign(same, signer.canonical_request(same))
    return signer.signature(text, same)
