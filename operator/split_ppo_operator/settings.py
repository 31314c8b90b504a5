"""Settings of the operator: flags, then environment variables, then a file, then defaults.

Each is a flag `--some-name`, a variable `SPLIT_PPO_SOME_NAME` and a key `some-name` of the YAML file that `--config` names.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from split_ppo_operator.desired.reach import REACHES


@dataclass(frozen=True)
class Settings:
    """What a platform engineer may change; the texts are the flags' help."""

    namespaces: tuple[str, ...] = ()
    workers: int = 8
    resync_seconds: float = 300.0
    leader_election: bool = True
    lease_namespace: str = "default"
    lease_name: str = "split-ppo-operator"
    lease_seconds: float = 15.0
    allow_in_pod_template: tuple[str, ...] = ()
    metrics_port: int = 8080
    health_port: int = 8081
    log_format: str = "json"
    log_level: str = "INFO"


HELP = {
    "namespaces": "namespaces to watch, separated by commas; none: all of them",
    "workers": "jobs that are worked on at the same time",
    "resync_seconds": "how often every job is looked at again, whatever happened",
    "leader_election": "whether replicas agree on one of them that acts",
    "lease_namespace": "namespace of the Lease they agree with",
    "lease_name": "name of the Lease they agree with",
    "lease_seconds": "how long the others wait for one that fell silent, at least 3",
    "allow_in_pod_template": f"what a job's podTemplate may do besides: {', '.join(REACHES)}, or all",
    "metrics_port": "port of /metrics; 0: none",
    "health_port": "port of /healthz and /readyz; 0: none",
    "log_format": "json or text",
    "log_level": "DEBUG, INFO, WARNING or ERROR",
}
CHOICES = {
    "log_format": ("json", "text"),
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
    "allow_in_pod_template": (*REACHES, "all"),
}


class SettingError(Exception):
    """A setting that can't be; the text says which and what it must be."""


def read_settings(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    parser = argparse.ArgumentParser(
        prog="split-ppo-operator",
        description="Runs SplitPPOJobs on KubeRay. Every flag can also be given as SPLIT_PPO_<FLAG> in the environment,"
        " or without its dashes in the file that --config names; a flag wins over the environment, and that over the file.",
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file with settings (default: none)")
    defaults = Settings()
    for setting in fields(Settings):
        default = getattr(defaults, setting.name)
        shown = ",".join(default) if isinstance(default, tuple) else default
        parser.add_argument(
            f"--{setting.name.replace('_', '-')}",
            metavar="LIST" if isinstance(default, tuple) else type(default).__name__.upper(),
            help=f"{HELP[setting.name]} (default: {shown if shown != '' else 'none'})",
        )
    given = {name: text for name, text in vars(parser.parse_args(arguments)).items() if text is not None}
    names = [setting.name for setting in fields(Settings)]
    variables = {name: environment.get(f"SPLIT_PPO_{name.upper()}") for name in (*names, "config")}
    given = {name: text for name, text in variables.items() if text is not None} | given
    file = given.pop("config", None)
    try:
        values = {**(_read_file(Path(file), names) if file else {}), **given}
        return Settings(**{name: _convert(name, value, getattr(defaults, name)) for name, value in values.items()})
    except SettingError as error:
        parser.error(str(error))


def _read_file(file: Path, names: Sequence[str]) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text()) or {}
    except OSError as error:
        raise SettingError(f"--config: {file} can't be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise SettingError(f"--config: {file} is no YAML: {error}") from error
    if not isinstance(found, dict):
        raise SettingError(f"--config: {file} must hold settings by name, such as `workers: 8`.")
    known = {name.replace("_", "-"): name for name in names}
    if unknown := sorted(str(key) for key in found if key not in known):
        raise SettingError(f"--config: {file} has {', '.join(unknown)}; there are only {', '.join(known)}.")
    return {known[key]: value for key, value in found.items()}


def _convert(name: str, value: object, like: object) -> Any:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    flag = f"--{name.replace('_', '-')}"
    parts = tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(like, tuple) else (text,)
    if name in CHOICES and not set(parts) <= set(CHOICES[name]):
        raise SettingError(f"{flag} is {text!r}; it must be one of {', '.join(CHOICES[name])}.")
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise SettingError(f"{flag} is {text!r}; it must be true or false.")
        return text.lower() == "true"
    if isinstance(like, tuple):
        return parts
    if not isinstance(like, (int, float)):
        return text
    try:
        return type(like)(text)
    except ValueError:
        raise SettingError(f"{flag} is {text!r}; it must be a number.") from None
