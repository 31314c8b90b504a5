"""Whose line is it: Ray sends the output of every process to the driver's log, marked with a name, a pid and an address.

Pure: lines and the pools' addresses in, (pool, text) out. What carries no mark, or no address, was said on the head: by the
driver or by a process beside it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

import click

from split_ppo.cli.drawing import COLOURS
from split_ppo.cli.plain_text import plain

DRIVER = "driver"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MARK = re.compile(r"^\((?P<who>[^()]*?(?:pid=\d+|raylet|autoscaler[^()]*?))(?:, ip=(?P<ip>[0-9a-fA-F.:]+))?\) ?")


def attributed(lines: Iterable[str], pools: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each line with the pool it comes from, `driver` for the head; `pools` says whose each address is."""
    for line in lines:
        mark = _MARK.match(_COLOUR.sub("", line))
        if mark is None:
            yield DRIVER, plain(line)
            continue
        pool = pools.get(mark["ip"] or "", "worker" if mark["ip"] else DRIVER)
        yield pool, f"({mark['who']}) {plain(mark.string[mark.end() :])}"


def shown(pool: str, text: str) -> str:
    """A line as it is printed."""
    return f"{click.style(f'{pool:<6}', fg=COLOURS.get(pool, 'white'), bold=True)} {text}"


def placement_pools(event: str) -> dict[str, str]:
    """Addresses of the pools from the trainer's `placement` event; empty for anything else."""
    try:
        found = json.loads(event)
        places = [*found["workers"], *found["helpers"]]
        return {str(p["node_ip"]): str(p["pool"]) for p in places if p["pool"]}
    except (ValueError, KeyError, TypeError):
        return {}
