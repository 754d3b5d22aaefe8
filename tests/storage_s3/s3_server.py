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
                if not self.answer(Request(text)):
                    return
        except OSError:
            pass  # the client has gone

    def answer(self, request):
        """Whether the connection stays open."""
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
            if self.server.faults.due(kind, times, trial, request):
                fault = kind
                early = s3_faults.early(kind, self.request)
                if early is not None:
                    self.request.sendall(early)
                    return False
        try:
            s3_signature.check(request.method, request.raw_path, request.raw_query, request.headers, ACCOUNTS, REGION)
            status, headers, body = self.find(request, path)
        except Refused as refused:
            status, headers, body = self.refusal(request, refused)
        if fault:
            s3_faults.send(fault, self.request, status, headers, body)
            return False
        head = s3_faults.head_of(status, headers | {"Content-Length": len(body)})
        self.request.sendall(head if request.method == "HEAD" else head + body)
        return True

    def find(self, request, path):
        bucket, _, key = path[1:].partition("/")
        if request.method not in ("GET", "HEAD"):
            raise Refused(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        if not key:
            return 200, {"Content-Type": "application/xml"}, self.server.store.list(bucket, request.query)
        return self.server.store.read(bucket, decode(key), request.headers)

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
        """/control/connections, /control/requests: how many there were. /control/late-port/SECONDS: a port that refuses connections
        until then; -1: always."""
        if words[0] in self.counts:
            return str(self.counts[words[0]])
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
