"""A port that leads to a pod: bytes both ways, a login that only its user knows, and nothing left open."""

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from split_ppo.cli.forward import COOKIE, Forward
from split_ppo.cli.refusals import ClusterError


@pytest.fixture
def pod() -> Iterator[socket.socket]:
    """Answers each request with what it was sent, as a pod's HTTP server might."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while request := connection.recv(65536):
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(request)}\r\n\r\n"
                connection.sendall(head.encode() + request)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def forward(pod: socket.socket) -> Iterator[Forward]:
    made = Forward(lambda: socket.create_connection(pod.getsockname()), token="s3cret")
    serving = threading.Thread(target=made.serve)
    serving.start()
    yield made
    made.close()
    serving.join(timeout=10)
    assert not serving.is_alive()


def get(forward: Forward, path: str) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", forward.port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.getheaders())


def test_bytes_go_both_ways_and_a_connection_may_be_used_again(forward: Forward) -> None:
    connection = HTTPConnection("127.0.0.1", forward.port, timeout=10)
    for path in ("/api/version", "/api/jobs/"):
        connection.request("GET", path)
        assert connection.getresponse().read().decode().startswith(f"GET {path} HTTP/1.1")
    connection.close()


def test_the_login_brings_the_token_and_nothing_else_does(forward: Forward) -> None:
    status, _, headers = get(forward, f"/login/{forward.key}")
    assert (status, headers["Location"]) == (303, forward.address)
    assert headers["Set-Cookie"].startswith(f"{COOKIE}=s3cret; Path=/; HttpOnly; SameSite=Strict")
    for path in ("/", "/login/", "/login/guess", f"/login/{forward.key}x"):
        status, text, headers = get(forward, path)
        assert status == 200
        assert "s3cret" not in text
        assert "Set-Cookie" not in headers


def test_a_pod_that_is_gone_is_a_sentence_in_the_browser_too() -> None:
    said: list[str] = []

    def gone() -> socket.socket:
        raise ClusterError("The head pod is gone.")

    made = Forward(gone, token="t", complain=said.append)
    threading.Thread(target=made.serve, daemon=True).start()
    status, text, _ = get(made, "/")
    assert (status, text) == (502, "The head pod is gone.\n")
    assert said == ["The head pod is gone."]
    made.close()


def test_a_port_that_is_taken_is_a_sentence(pod: socket.socket) -> None:
    with pytest.raises(ClusterError, match=r"can't be had \(address already in use\): choose another with --port"):
        Forward(lambda: socket.create_connection(pod.getsockname()), token="t", port=pod.getsockname()[1])


def test_closing_ends_what_is_open(forward: Forward) -> None:
    connection = socket.create_connection(("127.0.0.1", forward.port))
    connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert connection.recv(10)
    forward.close()
    connection.settimeout(10)
    while connection.recv(65536):
        pass
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", forward.port))
