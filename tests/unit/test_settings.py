from pathlib import Path

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
    [
        ("--workers", "many", "must be a number"),
        ("--leader-election", "perhaps", "must be true or false"),
        ("--allow-in-pod-template", "hostNetwork,hostpath", "must be one of hostPath, hostNetwork,"),
    ],
)
def test_says_what_a_setting_must_be(flag: str, value: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings([flag, value], {})
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_every_setting_is_explained() -> None:
    assert set(HELP) == set(vars(Settings()))


def test_a_file_sets_the_environment_wins_over_it_and_a_flag_over_both(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("workers: 2\nresync-seconds: 7\nleader-election: false\nnamespaces: [a, b]\nlog-level: DEBUG\n")
    found = read_settings(["--config", str(file), "--log-level=ERROR"], {"SPLIT_PPO_WORKERS": "3"})
    assert (found.workers, found.resync_seconds, found.log_level) == (3, 7.0, "ERROR")
    assert (found.leader_election, found.namespaces) == (False, ("a", "b"))
    assert read_settings([], {"SPLIT_PPO_CONFIG": str(file)}).workers == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("worker: 2", "has worker; there are only namespaces, workers,"),
        ("- workers", "must hold settings by name"),
        ("workers: {", "is no YAML"),
        ("log-format: xml", "must be one of json, text"),
        (None, "can't be read: No such file"),
    ],
)
def test_says_what_is_wrong_with_a_file(
    text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit):
        read_settings(["--config", str(file)], {})
    assert words in capsys.readouterr().err
