"""Checks Signature Version 4, from AWS's description of it and apart from the plugin's code: the canonical request is rebuilt from
what the request means (decoded names), so that a client that encodes wrongly is refused."""
import datetime
import hashlib
import hmac
import re
import urllib.parse

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})")


class Refused(Exception):
    def __init__(self, status, code, message, **fields):
        super().__init__(message)
        self.status, self.code, self.message, self.fields = status, code, message, fields


def encode(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~", encoding="utf-8", errors="surrogateescape")


def decode(text):
    return urllib.parse.unquote(text, encoding="utf-8", errors="surrogateescape")


def parse_query(raw):
    pairs = [part.partition("=") for part in raw.split("&") if part]
    return [(decode(name), decode(value)) for name, _, value in pairs]


def canonical_request(method, raw_path, raw_query, headers, signed):
    query = sorted((encode(name), encode(value)) for name, value in parse_query(raw_query))
    lines = [method, encode(decode(raw_path), "/"), "&".join(f"{name}={value}" for name, value in query)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    return "\n".join(lines + ["", ";".join(signed), headers["x-amz-content-sha256"]])


def signature(secret, day, region, to_sign):
    key = b"AWS4" + secret.encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def check(method, raw_path, raw_query, headers, body, accounts, region):
    """accounts: key id -> (secret, token or ""). Raises Refused."""
    match = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if not match:
        raise Refused(403, "AccessDenied", "Access Denied")
    key_id, day, scope_region, names, given = match.groups()
    if key_id not in accounts:
        raise Refused(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    if scope_region != region:
        raise Refused(400, "AuthorizationHeaderMalformed", f"the region '{scope_region}' is wrong; expecting '{region}'", Region=region)
    secret, token = accounts[key_id]
    if headers.get("x-amz-security-token", "") != token:
        raise Refused(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    if token.startswith("expired"):
        raise Refused(400, "ExpiredToken", "The provided token has expired.")
    if headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
        raise Refused(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
    time = headers.get("x-amz-date", "")
    stamp = datetime.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    if abs((datetime.datetime.now(datetime.timezone.utc) - stamp).total_seconds()) > 900 or not time.startswith(day):
        raise Refused(403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large.")
    signed = names.split(";")
    owed = {"host"} | {name for name in headers if name.startswith("x-amz-")}
    if signed != sorted(signed) or not owed <= set(signed) <= set(headers):
        raise Refused(403, "AccessDenied", "There were headers present in the request which were not signed")
    digest = hashlib.sha256(canonical_request(method, raw_path, raw_query, headers, signed).encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{time}\n{day}/{region}/s3/aws4_request\n{digest}"
    if not hmac.compare_digest(signature(secret, day, region, to_sign), given):
        raise Refused(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
