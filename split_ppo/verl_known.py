"""The settings that verl knows, from the list that `tools/verl_settings.py` wrote."""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files


@cache
def known_paths() -> frozenset[str]:
    return frozenset(files("split_ppo").joinpath("verl_settings.txt").read_text(encoding="utf-8").split())


def is_known(path: str) -> bool:
    """Whether verl has the setting, or a section above it takes any key."""
    known, steps = known_paths(), path.split(".")
    if path in known or f"{path}.*" in known:
        return True
    above = (".".join(steps[:n]) for n in range(1, len(steps)))
    return any(f"{section}.*" in known for section in above) or _is_section(path)


def suggestion(path: str) -> str | None:
    """A known setting that is nearly this one: in the same section first, then of the same name elsewhere."""
    names = {p.removesuffix(".*") for p in known_paths()}
    section, _, key = path.rpartition(".")
    siblings = [p for p in names if p.rpartition(".")[0] == section]
    close = get_close_matches(path, siblings, n=1, cutoff=0.85)
    if close:
        return close[0]
    same = sorted((p for p in names if p.rpartition(".")[2] == key), key=lambda p: (p.count("."), p))
    return same[0] if same else next(iter(get_close_matches(path, names, n=1, cutoff=0.85)), None)


def _is_section(path: str) -> bool:
    return any(p.startswith(f"{path}.") for p in known_paths())
