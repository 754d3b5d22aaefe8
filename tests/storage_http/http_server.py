"""A small web server for tests, which misbehaves where it is asked to.

    python3 http_server.py ROOT [CERTIFICATE]

CERTIFICATE is a PEM file of a key and its certificate; the server speaks TLS then. Prints "listening on PORT", and ends when its standard input does. /NAME is the file NAME of ROOT, with an ETag and ranges.
    /plain/NAME        no ranges: always 200
    /chunked/NAME      no ranges, and no Content-Length
    /claims/BYTES/NAME     a Content-Length of so many, or with ranges a Content-Range of a file of so many
    /unversioned/NAME  neither ETag nor Last-Modified
    /cut/TIMES/ID/NAME      the first TIMES replies with this ID break off in the middle; plainly /cut/TIMES/ID/plain/NAME
    /status/CODE/TIMES/ID/NAME  the first TIMES replies with this ID have this status; 0: all
    /slow/NAME         half of the body, and then nothing
    /hops/N/NAME       N redirects, and then the file
    /to/URL            a redirect to this URL, percent-encoded
    http://any.host/NAME  as a proxy is asked: the same as /NAME
    /private/NAME      401, unless there is an Authorization; /echo: what the Authorization was
    /control/requests  how many there were, but for control
"""
import http.server
import os
import re
import ssl
import sys
import threading
import time
import urllib.parse

ROOT = sys.argv[1]
LOCK = threading.Lock()
COUNTS = {"requests": 0}


def count(key):
    with LOCK:
        COUNTS[key] = COUNTS.get(key, 0) + 1
        return COUNTS[key]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("http://"):  # we are asked as a proxy
            path = "/" + path.split("/", 3)[3]
        words = path.split("/")[1:]
        if words[0] == "control":
            return self.reply(200, {}, str(COUNTS["requests"]).encode())
        count("requests")
        self.cut, self.ranges, self.sized, self.versioned, self.slow = False, True, True, True, False
        self.claimed = None
        while True:
            word = words.pop(0)
            if word == "plain":
                self.ranges = False
            elif word == "chunked":
                self.ranges = self.sized = False
            elif word == "claims":
                self.claimed = words.pop(0)
            elif word == "unversioned":
                self.versioned = False
            elif word == "slow":
                self.slow = True
            elif word == "cut":
                times, name = int(words.pop(0)), words.pop(0)
                self.cut = count(name) <= times
            elif word == "status":
                status, times, name = int(words.pop(0)), int(words.pop(0)), words.pop(0)
                if times == 0 or count(name) <= times:
                    return self.reply(status, {}, b"whatever")
            elif word == "hops":
                left = int(words.pop(0))
                if left > 0:
                    return self.reply(302, {"Location": f"../../hops/{left - 1}/{'/'.join(words)}"}, b"elsewhere")
            elif word == "to":
                return self.reply(307, {"Location": urllib.parse.unquote("/".join(words))}, b"elsewhere")
            elif word == "private" and "Authorization" not in self.headers:
                return self.reply(401, {"WWW-Authenticate": 'Basic realm="x"'}, b"who are you?")
            elif word == "echo":
                return self.reply(200, {}, self.headers.get("Authorization", "nobody").encode())
            elif word != "private":
                return self.file("/".join([word] + words))

    def file(self, name):
        path = os.path.join(ROOT, urllib.parse.unquote(name))
        if not os.path.isfile(path):
            return self.reply(404, {}, b"<html>not found</html>")
        with open(path, "rb") as file:
            body = file.read()
        etag, total = f'"{os.stat(path).st_mtime_ns:x}"', len(body)
        headers = {"ETag": etag} if self.versioned else {}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if self.ranges else None
        if span and self.headers.get("If-Range", etag) == etag:
            first, last = int(span[1]), min(int(span[2] or total - 1), total - 1)
            if first >= total:
                return self.reply(416, {"Content-Range": f"bytes */{total}"}, b"")
            claimed, self.claimed = self.claimed or total, None
            return self.reply(206, headers | {"Content-Range": f"bytes {first}-{last}/{claimed}"}, body[first : last + 1])
        self.reply(200, headers, body)

    def reply(self, status, headers, body):
        sized, cut, slow = (getattr(self, name, usual) for name, usual in (("sized", True), ("cut", False), ("slow", False)))
        claimed = getattr(self, "claimed", None)
        self.send_response(status, "Whatever")
        for name, value in headers.items():
            self.send_header(name, value)
        if sized:
            self.send_header("Content-Length", claimed or str(len(body)))
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if not sized:
                chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n" if body else b""
                self.wfile.write(chunk + b"0\r\n\r\n")
            else:
                self.wfile.write(body[: len(body) // 2] if cut or slow else body)
            self.wfile.flush()
            if slow:
                time.sleep(60)
        except OSError:
            pass  # the client has gone
        if cut or slow or claimed:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def handle_error(self, request, client_address):
        pass


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 2:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(sys.argv[2])
    server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"listening on {server.server_address[1]}", flush=True)
sys.stdin.read()
os._exit(0)
