"""Both ends of a weight sync go to the same place of this run."""

from split_ppo_trainer.sockets import PREFIX, own_handle, own_prefix

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
