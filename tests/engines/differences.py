# SPDX-License-Identifier: MIT
"""Where an engine does otherwise than DynamoDB: feature -> engine -> what it does instead.

"aws" is what DynamoDB does by its documentation, as far as we know ("?": we do not); nothing here
was tried on Amazon's service. Where a feature has many cases, only those that deviate are listed.
NOT_TRIED: what the engine lacks the ground for. NOT_ALWAYS: now this, now that; nothing is expected.

usage: differences.py    prints the table of docs/ENGINES.md
"""

COLUMNS = ("aws", "moto", "dynalite", "dynoxide")

NOT_TRIED, NOT_ALWAYS = "-", "not always"

DIFFERENCES = {
    # Items
    "item of 409,600 bytes": {"aws": "ok", "moto": "ValidationException"},
    "32 lists in each other": {"aws": "ValidationException", "moto": "ok", "dynalite": "ok"},
    "aliases checked": {"moto": {"alias not given": "500"}},
    "projection of a nested path": {"aws": "found", "moto": "ValidationException"},
    "reads of odd attribute names": {"moto": {"brackets": {}}},
    "numbers come back": {"aws": "plain", "moto": "as sent"},
    "numbers refused": {"moto": {"39 digits": "ok", "1e126": "ok"}},
    "lone surrogate in a string": {
        "aws": "?",
        "moto": "HTTP 500",
        "dynalite": "as sent",
        "dynoxide": "SerializationException",
    },
    "lone surrogate in a name": {
        "aws": "?",
        "moto": "HTTP 500",
        "dynalite": "as sent",
        "dynoxide": "SerializationException",
    },
    "values refused": {
        "moto": {
            "string twice in a set": "ok", "1 and 1.0 in a set": "ok", "empty name in a map": "ok",
            "binary twice in a set": "ok", "two types": "ok",
        },
        "dynalite": {"empty name in a map": "ok"},
    },
    # Conditions and updates
    "put if equal": {
        "dynalite": {
            "L, the same": "ConditionalCheckFailedException",
            "M, the same": "ConditionalCheckFailedException",
            "M, one inner value differs, the same": "ConditionalCheckFailedException",
            "empty M, the same": "ConditionalCheckFailedException",
        },
    },
    "functions in conditions": {
        "dynalite": {"contains(l, {'M': {}})": "ConditionalCheckFailedException"},
    },
    "ALL_OLD of a failed condition, by": {"aws": ["put", "delete", "update"], "dynalite": []},
    "put if all of 14 attributes are equal": {
        "aws": "ok",
        "dynalite": "ConditionalCheckFailedException",
    },
    "append of the same map": {"aws": "ConditionalCheckFailedException", "dynalite": "ok"},
    "sums": {
        "moto": {
            "of 31 digits": "rounded", "of 39 digits": "exact", "of 38 and a half": "rounded",
            "over 1e126": "500",
        },
        "dynalite": {"of 39 digits": "exact", "of 38 and a half": "exact", "over 1e126": "exact"},
    },
    "8 writers append 20 values once each": {"aws": "yes", "moto": NOT_ALWAYS},
    "8 writers count to 100": {"aws": "100", "moto": NOT_ALWAYS},
    # Query and Scan
    "query of an index that is not there": {
        "aws": "ValidationException",
        "moto": "ResourceNotFoundException",
    },
    "filter on a key attribute": {"aws": "ValidationException", "moto": "ok"},
    "Limit reached with the last item": {
        "aws": "LastEvaluatedKey, then an empty page",
        "moto": "the end",
    },
    "query BETWEEN the wrong way round": {"aws": "ValidationException", "moto": "ok"},
    "start key of another shape": {"aws": "ValidationException", "moto": "ok"},
    "consumed capacity": {
        "moto": {"consistent scan of 15 KB": 1.0, "put of 1.5 KB": 1.0,
                 "put of 1 byte over 1.5 KB": 1.0},
        "dynalite": {"consistent scan of 15 KB": 2},
    },
    "pages of a scan of 6 items of 300 KB": {
        "aws": "?",
        "moto": [3, 3],
        "dynalite": [4, 2],
        "dynoxide": [3, 3],
    },
    "pages of that scan with a projection to nothing": {
        "aws": "?",
        "moto": [3, 3],
        "dynalite": [4, 2],
        "dynoxide": [3, 3],
    },
    # Batches and transactions
    "BatchGet of 50 items of 400 KB": {"aws": 42, "dynalite": 3},
    "limits of batches": {"moto": {"BatchWrite of 26": "ok"}},
    "transactions": {"aws": "ok", "dynalite": "UnknownOperationException"},
    "the same token twice counts": {"aws": "1", "moto": "2", "dynalite": NOT_TRIED},
    "the same token with another request": {
        "aws": "IdempotentParameterMismatchException",
        "moto": "ok",
        "dynalite": NOT_TRIED,
    },
    "transaction token of 37 characters": {
        "aws": "ValidationException",
        "moto": "ok",
        "dynalite": NOT_TRIED,
    },
    # Tables and time to live
    "tables refused": {
        "moto": {
            "name of 2 characters": "ok", "name of 256 characters": "ok",
            "name with a slash": "ok", "BOOL as key": "ok",
        },
    },
    "a new table is": {"aws": "CREATING", "moto": "ACTIVE"},
    "a table being deleted is": {"aws": "DELETING", "moto": "ACTIVE"},
    "delete of a protected table": {"aws": "ValidationException", "dynalite": "ok"},
    "ListTables from a name that is not there": {"aws": 5, "moto": 0},
    "ListTables with Limit 101": {"aws": "ValidationException", "moto": "ok"},
    "a new index for an on-demand table": {"aws": "ok", "dynalite": "ValidationException"},
    "without the table": {"moto": {"describe_time_to_live": "ResourceNotFound"}},
    "time to live set": {"aws": "ok", "dynalite": "UnknownOperationException"},
    "time to live set again": {"aws": "ValidationException", "moto": "ok", "dynoxide": "ok"},
    "time to live on another attribute": {"aws": "ValidationException", "moto": "ok"},
    # Streams
    "streams": {"aws": True, "dynalite": False},
    "the table names its stream": {"aws": True, "dynalite": False},
    "ListStreams": {"aws": "ok", "dynalite": "UnknownOperationException"},
    "an iterator that does not exist": {
        "aws": "ValidationException",
        "moto": "500",
        "dynalite": NOT_TRIED,
    },
    "a stream that is not there": {
        "aws": "ResourceNotFoundException",
        "moto": "ok",
        "dynalite": NOT_TRIED,
        "dynoxide": "ok",
    },
    "a shard that is not there": {
        "aws": "ResourceNotFoundException",
        "moto": "500",
        "dynalite": NOT_TRIED,
        "dynoxide": "ok",
    },
    "status of a stream switched off": {
        "aws": "DISABLED",
        "moto": "500",
        "dynalite": NOT_TRIED,
        "dynoxide": "ResourceNotFoundException",
    },
    "records of a stream switched off": {
        "aws": [["INSERT a"], "closed"],
        "moto": "500",
        "dynalite": NOT_TRIED,
        "dynoxide": "ResourceNotFoundException",
    },
    "an iterator of a stream switched off": {
        "aws": "closed",
        "moto": "open",
        "dynalite": NOT_TRIED,
        "dynoxide": "open",
    },
    "a stream on again": {"aws": "ok", "moto": "ResourceInUseException", "dynalite": NOT_TRIED},
    "a stream on again: new ARN, it is listed, the old is too": {
        "aws": [True, True, True],
        "moto": [False, True, True],
        "dynalite": NOT_TRIED,
        "dynoxide": [True, True, False],
    },
    "an iterator of a dropped table": {
        "aws": "closed",
        "moto": "open",
        "dynalite": NOT_TRIED,
        "dynoxide": "ResourceNotFoundException",
    },
    "records of a table that was dropped and made again": {
        "aws": [],
        "dynalite": NOT_TRIED,
        "dynoxide": ["INSERT a"],
    },
    "records of a put and an equal put": {
        "aws": ["INSERT a"],
        "moto": ["INSERT a", "MODIFY a"],
        "dynalite": NOT_TRIED,
        "dynoxide": ["INSERT a", "MODIFY a"],
    },
    "records of an update to the same": {"aws": 0, "moto": 1, "dynalite": NOT_TRIED, "dynoxide": 1},
    # The wire
    "bodies that are no request": {
        "moto": {
            "no JSON": "200 ok", "nothing at all": "200 ok", "base64 that is none": "200 ok",
            "a type that is none": "500 HTTP 500", "a value that is missing": "500 HTTP 500",
        },
    },
    "body: JSON of another kind": {
        "aws": "?",
        "moto": "500 HTTP 500",
        "dynalite": "200 ok",
        "dynoxide": "200 ok",
    },
    "body: UTF-8 that is none": {
        "aws": "?",
        "moto": "500 HTTP 500",
        "dynalite": "200 ok",
        "dynoxide": "400 HTTP 400",
    },
    "body: 17 MB": {
        "aws": "413, or the connection ends",
        "moto": "400 ResourceNotFoundException",
    },
    "type of a ValidationException": {
        "aws": "com.amazon.coral.validate#ValidationException",
        "moto": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException",
    },
    "headers that are missing or odd": {
        "moto": {
            "JSON 1.1": "200 ok", "no content type": "200 ok", "no target": "500 HTTP 500",
            "an operation that is none": "500 HTTP 500", "no Authorization": "200 ok",
            "no date": "200 ok", "a wrong signature of 2024": "200 ok",
            "an Authorization that is none": "200 ok",
        },
        "dynalite": {"a wrong signature of 2024": "200 ok"},
        "dynoxide": {"a wrong signature of 2024": "200 ok"},
    },
    "connections are kept": {"aws": [True, True], "moto": [False, False]},
}


def text(value):
    """A value as a cell of the table."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {text(one)}" for name, one in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(text, value)) or "none"
    return str(value).removesuffix("Exception").replace("|", "\\|")


def rows():
    """The lines of the table: "=" is as DynamoDB."""
    yield "| feature | DynamoDB | moto | dynalite | dynoxide |"
    yield "|---|---|---|---|---|"
    for feature, known in DIFFERENCES.items():
        cells = [text(known[name]) if name in known else "" if name == "aws" else "="
                 for name in COLUMNS]
        yield f"| {feature} | {' | '.join(cells)} |"


if __name__ == "__main__":
    print("\n".join(rows()))
