"""A port of this machine that leads to a port of a pod, as `kubectl port-forward` does, and to a browser's login.

Each connection gets a stream of its own through the API server. The one thing answered here is the login address, which
only the user knows: it hands the browser the token as a cookie, so that nobody else on this machine gets past Ray's own check.
"""

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from split_ppo.cli.refusals import ClusterError

# Ray's own name for it: what its login page sets.
COOKIE = "ray-authentication-token"
Open = Callable[[], socket.socket]


@dataclass
class Forward:
    """Listens on 127.0.0.1 until closed; `open` makes a connection to the pod."""

    open: Open
    token: str
    port: int = 0
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    complain: Callable[[str], None] = print
    _listener: socket.socket = field(init=False)
    _open_sockets: set[socket.socket] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(("127.0.0.1", self.port))
        except OSError as error:
            self._listener.close()
            reason = (error.strerror or str(error)).lower()
            raise ClusterError(
                f"Port {self.port} of this machine can't be had ({reason}): choose another with --port."
            ) from None
        self._listener.listen(64)
        self.port = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def login(self) -> str:
        return f"{self.address}login/{self.key}"

    def serve(self) -> None:
        """Until `close`."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open_sockets):
            _end(one)

    def _handle(self, connection: socket.socket) -> None:
        self._open_sockets.add(connection)
        try:
            start = connection.recv(4096, socket.MSG_PEEK)
            if start.startswith(f"GET /login/{self.key} ".encode()):
                connection.recv(4096)
                connection.sendall(self._welcome())
            elif start:
                self._join(connection)
        except ClusterError as error:
            self.complain(str(error))
            body = f"{error}\n".encode()
            head = f"HTTP/1.1 502 Bad Gateway\r\nContent-Length: {len(body)}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            with contextlib.suppress(OSError):
                connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
        except OSError:
            pass  # the browser or the pod went away
        finally:
            _end(connection)
            self._open_sockets.discard(connection)

    def _welcome(self) -> bytes:
        cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        return (
            "HTTP/1.1 303 See Other\r\n"
            f"Location: {self.address}\r\nSet-Cookie: {cookie}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ).encode()

    def _join(self, connection: socket.socket) -> None:
        """Both ways at once until either side is done."""
        pod = self.open()
        self._open_sockets.add(pod)
        try:
            back = threading.Thread(target=_pump, args=(pod, connection), daemon=True)
            back.start()
            _pump(connection, pod)
            back.join()
        finally:
            _end(pod)
            self._open_sockets.discard(pod)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        # Either side's end is the end: HTTP needs no half-closed connections.
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()
