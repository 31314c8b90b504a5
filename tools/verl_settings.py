#!/usr/bin/env python3
"""Write down the settings that verl knows, so that a typo in `training.config` is found without verl.

verl takes any key and ignores those it does not know. The light half has no verl to ask, so this reads verl's own defaults and
the dataclasses they name, in the trainer's environment, and writes one dotted path per line into split_ppo/verl_settings.txt.
A line that ends in `.*` is a section that takes any key (or a value whose default is null, which may be a mapping). Run it when
verl's version changes; a test compares.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

FILE = Path(__file__).resolve().parent.parent / "split_ppo" / "verl_settings.txt"


def known_settings() -> list[str]:
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("verl.trainer.config", version_base=None):
        defaults = OmegaConf.to_container(compose("ppo_trainer"), resolve=False)
    return sorted(set(_section(defaults, "")))


def _section(settings: Any, prefix: str) -> Iterator[str]:
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if key == "_target_":
            yield from _dataclass(_imported(value), prefix, beside=set(settings))
        elif isinstance(value, dict) and value:
            yield from _section(value, f"{path}.")
        else:
            yield f"{path}.*" if value is None or value == {} else path


def _dataclass(kind: Any, prefix: str, beside: set[str]) -> Iterator[str]:
    """Fields that the YAML leaves out; verl fills them from the dataclass."""
    if not dataclasses.is_dataclass(kind):
        return
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name in beside or field.name.startswith("_"):
            continue
        inner = next(
            (t for t in (hints[field.name], *get_args(hints[field.name])) if dataclasses.is_dataclass(t)), None
        )
        if inner is not None:
            yield from _dataclass(inner, f"{prefix}{field.name}.", set())
        else:
            hint = hints[field.name]
            open_ended = (
                hint is Any or dict in (hint, get_origin(hint), *get_args(hint)) or type(None) in get_args(hint)
            )
            yield f"{prefix}{field.name}.*" if open_ended else f"{prefix}{field.name}"


def _imported(target: str) -> Any:
    from hydra.utils import get_class

    return get_class(target)


if __name__ == "__main__":
    FILE.write_text("\n".join(known_settings()) + "\n")
    sys.stdout.write(f"wrote {FILE.name}: {len(FILE.read_text().splitlines())} settings\n")
