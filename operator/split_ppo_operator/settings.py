"""Settings of the operator: flags, then environment variables, then defaults.

Each setting is a flag `--some-name` and a variable `SPLIT_PPO_SOME_NAME`; the flag wins.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Settings:
    """What a platform engineer may change; the texts are the flags' help."""

    namespaces: tuple[str, ...] = ()
    workers: int = 8
    resync_seconds: float = 300.0
    leader_election: bool = True
    lease_namespace: str = "default"
    lease_name: str = "split-ppo-operator"
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
    "metrics_port": "port of /metrics; 0: none",
    "health_port": "port of /healthz and /readyz; 0: none",
    "log_format": "json or text",
    "log_level": "DEBUG, INFO, WARNING or ERROR",
}


def read_settings(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    parser = argparse.ArgumentParser(
        prog="split-ppo-operator",
        description="Runs SplitPPOJobs on KubeRay. Every flag can also be given as SPLIT_PPO_<FLAG> in the environment.",
    )
    defaults = Settings()
    for setting in fields(Settings):
        default = getattr(defaults, setting.name)
        given = environment.get(f"SPLIT_PPO_{setting.name.upper()}")
        shown = ",".join(default) if isinstance(default, tuple) else default
        parser.add_argument(
            f"--{setting.name.replace('_', '-')}",
            default=given if given is not None else None,
            metavar=str(type(default).__name__).upper() if not isinstance(default, tuple) else "LIST",
            help=f"{HELP[setting.name]} (default: {shown if shown != '' else 'none'})",
        )
    parsed = vars(parser.parse_args(arguments))
    values: dict[str, Any] = {}
    for name, text in parsed.items():
        if text is None:
            continue
        try:
            values[name] = _convert(text, getattr(defaults, name))
        except ValueError:
            kind = type(getattr(defaults, name)).__name__
            parser.error(
                f"--{name.replace('_', '-')} is {text!r}; it must be {'true or false' if kind == 'bool' else 'a number'}."
            )
    return Settings(**values)


def _convert(text: str, like: object) -> object:
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if isinstance(like, int):
        return int(text)
    if isinstance(like, float):
        return float(text)
    if isinstance(like, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text
