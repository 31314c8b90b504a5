"""Both ends of a weight sync go to the same place of this run."""

import threading
import time
from pathlib import Path

from split_ppo_trainer.sockets import LISTENS_WITHIN_S, PREFIX, await_listener, own_handle, own_prefix

VERLS = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-1.sock"


def test_verls_name_moves_to_the_runs_place() -> None:
    folder = own_handle(VERLS, {PREFIX: "/tmp/split-ppo-0/ab12/"})
    assert folder == "ipc:///tmp/split-ppo-0/ab12/rl-colocate-zmq-01000000-replica-0-rank-1.sock"
    assert own_handle(VERLS, {PREFIX: "/tmp/x-"}) == "ipc:///tmp/x-rl-colocate-zmq-01000000-replica-0-rank-1.sock"


def test_without_a_place_and_elsewhere_verls_name_stays() -> None:
    assert own_handle(VERLS, {}) == VERLS
    assert own_handle("tcp://127.0.0.1:1", {PREFIX: "/tmp/x-"}) == "tcp://127.0.0.1:1"


def test_runs_that_were_given_none_draw_different_ones() -> None:
    assert own_prefix({PREFIX: "/mine/"}) == "/mine/"
    assert own_prefix({}) != own_prefix({})


def test_the_longest_path_fits_into_a_socket_address() -> None:
    longest = own_handle(VERLS, {PREFIX: "/tmp/split-ppo-4294967295/0123abcd/"})
    assert len(longest.removeprefix("ipc://")) < 100


def test_whoever_comes_first_waits_for_the_listener(tmp_path: Path) -> None:
    socket = tmp_path / "rank-0.sock"
    done = threading.Event()

    def connect() -> None:
        await_listener(f"ipc://{socket}")
        done.set()

    thread = threading.Thread(target=connect)
    thread.start()
    assert not done.wait(0.05)
    socket.touch()
    assert done.wait(LISTENS_WITHIN_S / 2)
    thread.join()


def test_a_listener_that_does_not_come_is_not_waited_for_longer(tmp_path: Path) -> None:
    began = time.monotonic()
    await_listener("tcp://127.0.0.1:1")
    assert time.monotonic() - began < LISTENS_WITHIN_S
    await_listener(f"ipc://{tmp_path / 'nobody.sock'}")
    assert time.monotonic() - began >= LISTENS_WITHIN_S
