"""A real S3-compatible server over a folder: ``rclone serve s3``, which checks signatures.

It knows no conditional writes, so a front of a few lines adds those as AWS has them; the front also
fails where a test wants it to.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_hex

import pytest

from zerofleet.local.processes import free_port
from zerofleet.models.bucket import ModelBucket, Objects, bucket_address

ACCESS_KEY, SECRET_KEY = "tester", "canary-of-the-bucket"
BUCKET = "models"
START_SECONDS = 30.0


def _rclone() -> str:
    beside = Path(sys.executable).with_name("rclone")
    found = str(beside) if beside.exists() else shutil.which("rclone")
    assert found, "the tests need rclone: pip install 'zerofleet[test]'"
    return found


@dataclass
class S3Server:
    """Starts, stops and starts again on one port.

    Objects are files under ``root``, to be looked at; whoever writes them behind its back is not
    seen.
    """

    root: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    prefix: str = ""
    """Prefix of the present test."""

    @property
    def folder(self) -> Path:
        """Where the objects of the present test are."""
        return self.root / BUCKET / self.prefix

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [_rclone(), "serve", "s3", "--addr", f"127.0.0.1:{self.port}"]
        command += ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}", "--config", ""]
        self.process = subprocess.Popen(
            [*command, str(self.root)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "rclone does not start"
                assert self.process.poll() is None, "rclone ended"
                time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def s3_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"), free_port())
    (server.root / BUCKET).mkdir()
    yield server
    server.stop()


@pytest.fixture
def s3(s3_session: S3Server) -> S3Server:
    """The running server, with a prefix of the bucket ``models`` for this test alone."""
    if s3_session.process is None:
        s3_session.start()
    s3_session.prefix = f"fleet-{token_hex(4)}"
    return s3_session


@dataclass
class Front:
    """Stands before the server."""

    url: str
    requests: list[str] = field(default_factory=list)
    """``VERB KEY``; the verb of a conditional PUT is CREATE."""
    before: Callable[[str], int] = lambda _: 0
    """Given a request, the status to answer instead of passing it on; 0: pass it on."""
    after: Callable[[str], int] = lambda _: 0
    """The same once it was passed on: what it asked for is done."""
    damage: Callable[[str, bytes], bytes] = lambda _, content: content
    """Changes a body on its way to the client."""


def _status_xml(status: int) -> bytes:
    codes = {403: "AccessDenied", 412: "PreconditionFailed", 501: "NotImplemented"}
    code = codes.get(status, "SlowDown")
    return f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()


@pytest.fixture
def front(s3: S3Server) -> Iterator[Front]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            content = self.rfile.read(length)
            conditional = self.headers.get("If-None-Match") == "*"
            verb = "CREATE" if conditional else self.command
            place = self.path.split("?")[0].removeprefix(f"/{BUCKET}/")
            request = f"{verb} {place.removeprefix(f'{s3.prefix}/')}"
            front.requests.append(request)
            status = front.before(request)
            if not status and conditional and (s3.root / self.path.lstrip("/")).exists():
                status = 412
            if status:
                self.reply(status, {}, _status_xml(status))
                return
            upstream = http.client.HTTPConnection("127.0.0.1", s3.port)
            upstream.request(self.command, self.path, content or None, dict(self.headers.items()))
            answer = upstream.getresponse()
            body = answer.read()
            upstream.close()
            status = front.after(request)
            if status:
                self.reply(status, {}, _status_xml(status))
                return
            kept = {
                k: v
                for k, v in answer.getheaders()
                if k.lower() not in ("transfer-encoding", "content-length", "connection")
            }
            self.reply(answer.status, kept, front.damage(request, body))

        do_GET = do_DELETE = do_HEAD = do_POST = do_PUT  # noqa: N815

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        front = Front(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield front
        server.shutdown()
        thread.join()


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    path = tmp_path / "bucket-credentials"
    path.write_text(
        f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    return path


Open = Callable[..., ModelBucket]


@pytest.fixture
def open_bucket(s3: S3Server, credentials: Path, tmp_path: Path) -> Open:
    """A store in the bucket, directly or by another URL; each ``machine`` has a disk of its own."""

    def opened(url: str = "", *, run: str = "run", machine: str = "one") -> ModelBucket:
        address = bucket_address(f"s3://{BUCKET}/{s3.prefix}", url or s3.url, credentials)
        return ModelBucket(Objects(address), run, tmp_path / machine)

    return opened
