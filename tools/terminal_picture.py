"""A picture of what a terminal showed, for the documentation: the text of a real session becomes an SVG.

    python tools/terminal_picture.py SESSION.txt docs/quickstart.svg --title "two real nodes"

Lines that begin with `$ ` are what was typed. Everything after an empty line is left out, and so are lines that differ from the
one before in their last column alone (an age), and the middle of what is still long, with a line that says how many.
"""

import argparse
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("session", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--most", type=int, default=40, metavar="LINES")
    options = parser.parse_args()
    if not options.session.is_file() or not options.session.read_text().strip():
        parser.error(f"{options.session} holds no session: give the text of one.")
    said = changes(options.session.read_text().split("\n\n")[0].splitlines())
    options.picture.write_text(picture(shortened(said, options.most), options.title))
    print(f"wrote {options.picture}: {len(said)} lines")


def changes(lines: list[str]) -> list[str]:
    """Without those that tell nothing but the time."""
    told = [line.split()[:-1] for line in lines]
    return [line for number, line in enumerate(lines) if number == 0 or told[number] != told[number - 1]]


def shortened(lines: list[str], most: int) -> list[str]:
    """The beginning and the end, when all of it is too long to look at."""
    if len(lines) <= most:
        return lines
    head, tail = most // 2, most - most // 2 - 1
    return [*lines[:head], f"… {len(lines) - head - tail} more lines …", *lines[-tail:]]


def picture(lines: list[str], title: str) -> str:
    width = max(map(len, lines))
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True)
        for line in lines:
            style = "bold" if line.startswith("$ ") else "dim" if line.startswith("…") else ""
            console.print(Text(line, style=style), no_wrap=True)
        drawn = console.export_svg(title=title)
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # pictures load nothing from elsewhere


if __name__ == "__main__":
    main()
