"""Everything that a network and a server can do wrong. A request below /fault/KIND/TIMES/ID suffers the fault KIND, until TIMES
requests with this ID have; TIMES = 0: always. KIND may be KIND.WHAT, for the requests that is_meant() names alone."""
import re
import select
import socket
import struct
import threading
import time

PATIENCE = 60  # seconds a stalled connection is kept

OBJECT = {"wrong_content_range", "huge_total", "large_total", "short_chunked", "wrong_length", "changed_etag", "replaced", "no_etag"}
LIST = {"garbage_xml", "truncated_xml", "looping_list", "huge_size"}


# Whether WHAT selects this writing request: a part, the beginning or completion of an upload, a whole object, any of these, or
# one whose key ends with WHAT.
def is_meant(what, request):
    of_upload = "uploadId" in request.query
    kinds = {
        "part": request.method == "PUT" and of_upload,
        "begin": request.method == "POST" and not of_upload,
        "complete": request.method == "POST" and of_upload,
        "put": request.method == "PUT" and not of_upload,
        "write": request.method in ("PUT", "POST"),
    }
    return kinds.get(what, request.method == "PUT" and request.raw_path.endswith("/" + what))


class Faults:
    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}
        self.now = (None, 0, 0)

    def break_from_now(self, kind, times, after):
        with self.lock:
            self.now = (kind, times, after)
            self.counts["now"] = 0

    def broken(self, request):
        """The fault that this request suffers because of break_from_now(), or None."""
        kind, times, after = self.now
        name, _, what = (kind or "").partition(".")
        if not kind or not is_meant(what, request):
            return None
        with self.lock:
            self.counts["now"] += 1
            count = self.counts["now"] - after
        return name if count > 0 and (times == 0 or count <= times) else None

    def due(self, kind, times, trial, request):
        """The fault that this request suffers, or None."""
        kind, _, what = kind.partition(".")
        if what and not is_meant(what, request):
            return None
        listing = request.method == "GET" and "list-type" in request.query
        if kind in OBJECT and (listing or request.method == "HEAD") or kind in LIST and not listing:
            return None
        if kind in ("changed_etag", "replaced") and request.headers.get("range", "").startswith("bytes=0-"):
            return None  # the first part; the others follow
        with self.lock:
            count = self.counts[trial] = self.counts.get(trial, 0) + 1
        return kind if times == 0 or count <= times else None


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wait_for_hangup(connection):
    select.select([connection], [], [], PATIENCE)


def head_of(status, headers):
    lines = [f"HTTP/1.1 {status} Whatever"] + [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(body):
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def error(status, code, message, **headers):
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    # Closes the connection afterwards; without this header a client might send its next request into it.
    return head_of(status, headers | {"Content-Length": len(body), "Connection": "close"}) + body


# Before the request is processed: bytes to send before closing the connection; None to continue.
def early(kind, connection):
    if kind == "reset_before_head":
        reset(connection)
        return b""
    if kind == "closed_before_head":
        return b""
    if kind == "stall_before_head":
        wait_for_hangup(connection)
        return b""
    return {
        "http_500": error(500, "InternalError", "We encountered an internal error. Please try again."),
        "slow_down": error(503, "SlowDown", "Please reduce your request rate."),
        "error_in_200": error(200, "InternalError", "We encountered an internal error. Please try again."),
        "throttled": error(429, "TooManyRequests", "Slow down", **{"Retry-After": "1"}),
        "proxy_html": head_of(502, {"Content-Length": 24}) + b"<html>Bad gateway</html>",
        "signature": error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match."),
        "not_found": error(404, "NoSuchKey", "The specified key does not exist."),
        "wrong_region": error(301, "PermanentRedirect", "Use another endpoint.", **{"x-amz-bucket-region": "eu-west-1"}),
        "garbage_head": b"\x00\x01 this is not HTTP\r\n\r\n\xff\xfe",
    }.get(kind)


# Sends a good reply badly, and closes the connection afterwards.
def send(kind, connection, status, headers, body):
    half = len(body) // 2
    whole = headers | {"Content-Length": len(body)}
    chunked = headers | {"Transfer-Encoding": "chunked"}
    if kind == "lost_reply":
        pass
    elif kind == "reset_mid_body":
        connection.sendall(head_of(status, whole) + body[:half])
        time.sleep(0.01)  # or the reset overtakes it
        reset(connection)
    elif kind == "short_body":
        connection.sendall(head_of(status, whole) + body[:half])
    elif kind == "long_body":
        connection.sendall(head_of(status, whole) + body + b"and more" * 20)
    elif kind == "long_body_kept":  # the excess could be read as the next reply
        connection.sendall(head_of(status, whole) + body + head_of(200, {"Content-Length": 5}) + b"wrong")
        wait_for_hangup(connection)
    elif kind == "stall_mid_body":
        connection.sendall(head_of(status, whole) + body[:half])
        wait_for_hangup(connection)
    elif kind == "slow_drip":
        connection.sendall(head_of(status, whole))
        for at in range(len(body)):
            connection.sendall(body[at:at + 1])
            if select.select([connection], [], [], 0.05)[0]:
                return
    elif kind == "wrong_content_range":
        first, rest = headers["Content-Range"].removeprefix("bytes ").split("-", 1)
        connection.sendall(head_of(status, whole | {"Content-Range": f"bytes {int(first) + 1}-{rest}"}) + body)
    elif kind == "huge_total":
        span = headers["Content-Range"].split("/")[0]
        connection.sendall(head_of(status, whole | {"Content-Range": f"{span}/{2 ** 64 - 1}"}) + body)
    elif kind == "large_total":
        span = headers["Content-Range"].split("/")[0]
        connection.sendall(head_of(status, whole | {"Content-Range": f"{span}/{10 ** 15}"}) + body)
    elif kind == "huge_length":
        connection.sendall(head_of(status, headers | {"Content-Length": 2 ** 62}))
    elif kind == "huge_size":
        text = re.sub(b"<Size>[0-9]+</Size>", b"<Size>%d</Size>" % (2 ** 64 - 1), body)
        connection.sendall(head_of(200, {"Content-Length": len(text)}) + text)
    elif kind == "wrong_length":
        connection.sendall(head_of(status, whole | {"Content-Length": half}) + body[:half])
    elif kind == "short_chunked":
        connection.sendall(head_of(status, chunked) + chunk(body[:half]) + chunk(b""))
    elif kind == "cut_chunked":
        connection.sendall(head_of(status, chunked) + chunk(body)[:half])
    elif kind == "changed_etag":
        connection.sendall(head_of(status, whole | {"ETag": '"another"'}) + bytes(len(body)))
    elif kind == "no_etag":
        connection.sendall(head_of(status, {name: value for name, value in whole.items() if name != "ETag"}) + body)
    elif kind == "replaced":
        connection.sendall(error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"))
    elif kind == "garbage_xml":
        connection.sendall(head_of(200, {"Content-Length": len(body)}) + bytes((byte * 7 + 3) % 256 for byte in body))
    elif kind == "truncated_xml":
        connection.sendall(head_of(200, {"Content-Length": half}) + body[:half])
    elif kind == "looping_list":
        text = body.replace(b"<IsTruncated>false</IsTruncated>",
                            b"<IsTruncated>true</IsTruncated><NextContinuationToken>2d</NextContinuationToken>")
        connection.sendall(head_of(200, {"Content-Length": len(text)}) + text)
    else:
        raise ValueError(f"no fault is called {kind}")
