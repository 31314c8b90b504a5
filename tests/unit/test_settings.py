import pytest

from split_ppo_operator.settings import HELP, Settings, read_settings


def test_defaults() -> None:
    assert read_settings([], {}) == Settings()


def test_the_environment_sets_and_a_flag_wins() -> None:
    environment = {"SPLIT_PPO_WORKERS": "3", "SPLIT_PPO_NAMESPACES": "a, b", "SPLIT_PPO_LEADER_ELECTION": "false"}
    found = read_settings(["--workers", "5"], environment)
    assert (found.workers, found.namespaces, found.leader_election) == (5, ("a", "b"), False)


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [("--workers", "many", "must be a number"), ("--leader-election", "perhaps", "must be true or false")],
)
def test_says_what_a_setting_must_be(flag: str, value: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings([flag, value], {})
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_every_setting_is_explained() -> None:
    assert set(HELP) == set(vars(Settings()))
