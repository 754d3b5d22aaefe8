"""A small S3 server for tests. Serves a folder of buckets, checks every signature, and misbehaves where it is asked to.

    python3 s3_server.py ROOT [--page KEYS] [--certificate FILE]

Prints "listening on PORT", and ends when its standard input does. Keys: AKIDTEST / secret, and AKIDTEMP / secret with the token
"token"; AKIDOLD / secret with the token "expired". Region: us-east-1. Without a signature: /control/..., see Server.control().
"""
import argparse
import os
import socket
import socketserver
import ssl
import sys
import threading
import time

import s3_faults
import s3_signature
from s3_signature import Refused, decode
from s3_store import Store

ACCOUNTS = {"AKIDTEST": ("secret/+key", ""), "AKIDTEMP": ("secret/+key", "token+/="), "AKIDOLD": ("secret/+key", "expired")}
REGION = "us-east-1"


class Request:
    def __init__(self, text):
        lines = text.decode("latin-1").split("\r\n")
        self.method, target, _ = lines[0].split(" ")
        self.raw_path, _, self.raw_query = target.partition("?")
        self.query = dict(s3_signature.parse_query(self.raw_query))
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.count("connections")
        buffer = b""
        try:
            if self.server.tls:
                self.request = self.server.tls.wrap_socket(self.request, server_side=True)
            while True:
                while b"\r\n\r\n" not in buffer:
                    got = self.request.recv(65536)
                    if not got:
                        return
                    buffer += got
                text, _, buffer = buffer.partition(b"\r\n\r\n")
                request = Request(text)
                length = int(request.headers.get("content-length", 0))

                def body():
                    nonlocal buffer
                    while len(buffer) < length:
                        got = self.request.recv(1 << 20)
                        if not got:
                            raise ConnectionError("the client has gone")
                        buffer += got
                    whole, buffer = buffer[:length], buffer[length:]
                    return whole

                if not self.answer(request, body):
                    return
        except OSError:
            pass  # the client has gone

    def answer(self, request, read_body):
        """Whether the connection stays open. read_body(): the request's, from the connection."""
        parts = request.raw_path.split("/")
        fault, path = None, request.raw_path
        if parts[1] == "control":
            body = self.server.control(parts[2:]).encode()
            self.request.sendall(s3_faults.head_of(200, {"Content-Length": len(body)}) + body)
            return True
        self.server.count("requests")
        if parts[1] == "fault":
            kind, times, trial = parts[2], int(parts[3]), parts[4]
            path = "/" + "/".join(parts[5:])
            fault = self.server.faults.due(kind, times, trial, request)
        fault = fault or self.server.faults.broken(request)
        if fault == "reset_mid_request":
            s3_faults.reset(self.request)  # what has come of the body is thrown away
            return False
        sent = read_body()
        early = s3_faults.early(fault, self.request) if fault else None
        if early is not None:
            self.request.sendall(early)
            return False
        try:
            s3_signature.check(request.method, request.raw_path, request.raw_query, request.headers, sent, ACCOUNTS, REGION)
            status, headers, body = self.find(request, path, sent)
        except Refused as refused:
            status, headers, body = self.refusal(request, refused)
        if fault:
            s3_faults.send(fault, self.request, status, headers, body)
            return False
        head = s3_faults.head_of(status, headers | {"Content-Length": len(body)})
        self.request.sendall(head if request.method == "HEAD" else head + body)
        return True

    def find(self, request, path, sent):
        bucket, _, key = path[1:].partition("/")
        store, upload = self.server.store, request.query.get("uploadId")
        actions = {
            ("PUT", False): lambda: store.write(bucket, decode(key), sent),
            ("PUT", True): lambda: store.write_part(upload, int(request.query["partNumber"]), sent),
            ("POST", False): lambda: store.begin(bucket, decode(key)),
            ("POST", True): lambda: store.complete(upload, sent.decode()),
            ("DELETE", False): lambda: store.remove(bucket, decode(key)),
            ("DELETE", True): lambda: store.abort(upload),
        }
        if request.method in ("GET", "HEAD"):
            if not key:
                return 200, {"Content-Type": "application/xml"}, store.list(bucket, request.query)
            return store.read(bucket, decode(key), request.headers)
        action = actions.get((request.method, upload is not None))
        if not key or not action or (request.method == "POST" and upload is None and "uploads" not in request.query):
            raise Refused(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        return action()

    @staticmethod
    def refusal(request, refused):
        fields = {"Code": refused.code, "Message": refused.message} | refused.fields
        headers = fields.pop("headers", {})
        body = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{body}</Error>'.encode()
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        return refused.status, {"Content-Type": "application/xml", "Date": date} | headers, body


class Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 256

    def __init__(self, store, certificate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate)
        self.store, self.faults = store, s3_faults.Faults()
        self.lock, self.counts = threading.Lock(), {"connections": 0, "requests": 0}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def control(self, words):
        """/control/connections, /control/requests: how many there were. /control/uploads: how many are open. /control/break/KIND.WHAT/
        TIMES/AFTER: from now on requests suffer this, the first AFTER of those that are meant excepted; /control/mend: no more.
        /control/late-port/SECONDS: a port that refuses connections until then; -1: always."""
        if words[0] in self.counts:
            return str(self.counts[words[0]])
        if words[0] == "uploads":
            return str(len(self.store.uploads))
        if words[0] == "break":
            self.faults.break_from_now(words[1], int(words[2]), int(words[3]))
        if words[0] == "mend":
            self.faults.break_from_now(None, 0, 0)
        if words[0] == "late-port":
            late = socket.socket()
            late.bind(("127.0.0.1", 0))
            if float(words[1]) >= 0:
                threading.Timer(float(words[1]), self.accept_at, [late]).start()
            else:
                self.kept = getattr(self, "kept", []) + [late]
            return str(late.getsockname()[1])
        return "?"

    def accept_at(self, late):
        late.listen(64)
        while True:
            connection, address = late.accept()
            threading.Thread(target=self.process_request_thread, args=(connection, address), daemon=True).start()

    def handle_error(self, request, client_address):
        print("error while serving", file=sys.stderr)
        import traceback
        traceback.print_exc()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--page", type=int, default=1000)
    parser.add_argument("--certificate", help="PEM file of key and certificate; the server speaks TLS")
    arguments = parser.parse_args()
    server = Server(Store(arguments.root, arguments.page), arguments.certificate)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"listening on {server.server_address[1]}", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
