"""Buckets as folders. A file's path, percent-decoded, is its object's key, so that keys that no file can have ("a//b") exist too."""
import hashlib
import os
import re
import threading
import urllib.parse
from xml.sax.saxutils import escape

from s3_signature import Refused, decode, encode


class Store:
    def __init__(self, root, page):
        self.root, self.page = root, page
        self.files = {}  # bucket -> {key: path}
        self.etags = {}  # path -> (mtime, size, etag)
        self.lock = threading.RLock()  # held by what changes or lists
        self.uploads, self.number = {}, 0  # id -> (bucket, key, {number: body})

    def scan(self, bucket):
        base = os.path.join(self.root, bucket)
        if not os.path.isdir(base):
            raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
        found = {}
        for folder, _, names in os.walk(base):
            for name in names:
                path = os.path.join(folder, name)
                found[decode(os.path.relpath(path, base))] = path
        self.files[bucket] = found
        return found

    def path(self, bucket, key):
        known = self.files.get(bucket)
        if known is None or key not in known:
            known = self.scan(bucket)
        if key not in known or not os.path.exists(known[key]):
            raise Refused(404, "NoSuchKey", "The specified key does not exist.")
        return known[key]

    def etag(self, path):
        status = os.stat(path)
        known = self.etags.get(path)
        if not known or known[:2] != (status.st_mtime_ns, status.st_size):
            with open(path, "rb") as file:
                digest = hashlib.md5(file.read()).hexdigest()
            known = self.etags[path] = (status.st_mtime_ns, status.st_size, f'"{digest}"')
        return known[2]

    def read(self, bucket, key, headers):
        """Status, headers and body of a GET."""
        path = self.path(bucket, key)
        etag, total = self.etag(path), os.path.getsize(path)
        if headers.get("if-match", etag) != etag:
            raise Refused(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
        reply = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "binary/octet-stream"}
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        if not span:
            with open(path, "rb") as file:
                return 200, reply, file.read()
        first, last = int(span[1]), min(int(span[2]), total - 1)
        if first >= total:
            raise Refused(416, "InvalidRange", "The requested range is not satisfiable", headers={"Content-Range": f"bytes */{total}"})
        with open(path, "rb") as file:
            file.seek(first)
            body = file.read(last - first + 1)
        return 206, reply | {"Content-Range": f"bytes {first}-{last}/{total}"}, body

    def write(self, bucket, key, body, etag=None):
        with self.lock:
            if not os.path.isdir(os.path.join(self.root, bucket)):
                raise Refused(404, "NoSuchBucket", "The specified bucket does not exist")
            path = self.scan(bucket).get(key) or os.path.join(self.root, bucket, encode(key))
            unfinished = os.path.join(self.root, ".unfinished")
            with open(unfinished, "wb") as file:
                file.write(body)
            os.replace(unfinished, path)
            etag = etag or f'"{hashlib.md5(body).hexdigest()}"'
            status = os.stat(path)
            self.etags[path] = (status.st_mtime_ns, status.st_size, etag)
        return 200, {"ETag": etag}, b""

    def remove(self, bucket, key):
        with self.lock:
            path = self.scan(bucket).get(key)
            if path:
                os.remove(path)
        return 204, {}, b""

    def begin(self, bucket, key):
        with self.lock:
            self.scan(bucket)
            self.number += 1
            name = f"upload+/={self.number}"
            self.uploads[name] = (bucket, key, {})
        return 200, {}, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode()

    def upload(self, name):
        if name not in self.uploads:
            raise Refused(404, "NoSuchUpload", "The specified multipart upload does not exist.")
        return self.uploads[name]

    def write_part(self, name, number, body):
        if not 1 <= number <= 10_000:
            raise Refused(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
        with self.lock:
            self.upload(name)[2][number] = body
        return 200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b""

    def complete(self, name, xml):
        with self.lock:
            bucket, key, parts = self.upload(name)
            named = [(int(number), etag) for number, etag in
                     re.findall(r"<Part><PartNumber>(\d+)</PartNumber><ETag>&quot;(\w+)&quot;</ETag></Part>", xml)]
            numbers = [number for number, _ in named]
            if not numbers or numbers != sorted(set(numbers)):
                raise Refused(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
            sums = b""
            for number, etag in named:
                if number not in parts or hashlib.md5(parts[number]).hexdigest() != etag:
                    raise Refused(400, "InvalidPart", "One or more of the specified parts could not be found.")
                if number != numbers[-1] and len(parts[number]) < 5 << 20:
                    raise Refused(400, "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
                sums += bytes.fromhex(etag)
            etag = f"{hashlib.md5(sums).hexdigest()}-{len(named)}"
            self.write(bucket, key, b"".join(parts[number] for number in numbers), f'"{etag}"')
            del self.uploads[name]
        return 200, {}, f"<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag></CompleteMultipartUploadResult>".encode()

    def abort(self, name):
        with self.lock:
            self.upload(name)
            del self.uploads[name]
        return 204, {}, b""

    def list(self, bucket, query):
        with self.lock:
            return self.list_page(bucket, query)

    def list_page(self, bucket, query):
        prefix, token = query.get("prefix", ""), query.get("continuation-token", "")
        files = self.files[bucket] if token and bucket in self.files else self.scan(bucket)
        encoded = query.get("encoding-type") == "url"
        bytewise = {key.encode("utf-8", "surrogateescape"): key for key in files if key.startswith(prefix)}
        after = bytes.fromhex(token)  # the last key that was given out
        keys = [bytewise[key] for key in sorted(bytewise) if not token or key > after]
        if query.get("delimiter") == "/":  # what lies deeper is one name, "folder/"
            cut = (key.find("/", len(prefix)) + 1 for key in keys)
            keys = sorted({key[:end] if end else key for key, end in zip(keys, cut)}, key=lambda key: key.encode("utf-8", "surrogateescape"))
            keys = [key for key in keys if not token or not key.endswith("/") or key.encode("utf-8", "surrogateescape") > after]
        page, more = keys[: self.page], len(keys) > self.page
        rows = [f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{self.page}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"]
        if encoded:
            rows.append("<EncodingType>url</EncodingType>")
        if more:
            last = page[-1].encode("utf-8", "surrogateescape").hex()
            rows.append(f"<NextContinuationToken>{last}</NextContinuationToken>")
        for key in page:
            name = urllib.parse.quote_plus(key, safe="/", errors="surrogateescape") if encoded else escape(key)
            if key not in files or (key.endswith("/") and query.get("delimiter") == "/" and key != prefix):
                rows.append(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
                continue
            rows.append(f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                        f"<ETag>{escape(self.etag(files[key]), {chr(34): '&quot;'})}</ETag><Size>{os.path.getsize(files[key])}</Size>"
                        "<StorageClass>STANDARD</StorageClass></Contents>")
        return (f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>{bucket}</Name><Prefix>{escape(urllib.parse.quote(prefix) if encoded else prefix)}</Prefix>"
                + "".join(rows) + "</ListBucketResult>").encode()
