"""The HTML report as a browser shows it."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from run_folders import run_plan, write_run
from split_ppo.compare.report import html_report
from split_ppo.compare.run_record import read_runs

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Looks at the page from within, after its own script has run: what is where, and what pointing and clicking do.
LOOK = """<script>
const box = e => { const b = e.getBoundingClientRect(); return {left: b.left, width: b.width, height: b.height}; };
const seen = {
  wide: document.documentElement.scrollWidth > innerWidth,
  fetched: performance.getEntriesByType('resource').length,
  verdict: document.querySelector('.verdict').innerText,
  headings: [...document.querySelectorAll('h2')].map(h => h.innerText),
  names: [...document.querySelectorAll('h3')].map(h => h.firstChild.textContent.trim()),
  table: [...document.querySelectorAll('table tr')].map(row => [...row.cells].map(cell => cell.innerText.trim())),
  rewards: document.querySelectorAll('polyline.reward').length,
  timelines: [...document.querySelectorAll('svg.timeline')].map(svg => ({
    said: [...svg.querySelectorAll('.idle-share')].map(t => t.textContent),
    lanes: [...svg.querySelectorAll('.idle')].map(lane => ({
      ...box(lane), hatched: getComputedStyle(lane).fill,
      pieces: [...svg.querySelectorAll(`.piece[data-pool=${lane.dataset.pool}]`)].map(p => ({name: p.dataset.piece, ...box(p)})),
    })),
  })),
};
document.querySelector('.piece').dispatchEvent(new PointerEvent('pointerenter'));
seen.pointed = document.getElementById('said').textContent;
const pieces = document.querySelectorAll('svg.timeline .piece').length;
document.querySelector('.legend button[data-piece=gen]').click();
seen.faded = document.querySelectorAll('svg.timeline .piece.faded').length;
seen.standing = pieces - seen.faded;
const out = document.createElement('pre'); out.id = 'seen'; out.textContent = JSON.stringify(seen);
document.body.append(out);
</script></body>"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs one of {', '.join(BROWSERS)}: make install-browser")
    return found


def look(browser: str, page: Path, profile: Path) -> dict[str, Any]:
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,900",
               f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)
    assert found, "the page's scripts did not run to their end"
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen


def test_the_report_shows_which_pool_did_what_and_when(browser: str, tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "runs" / "apart", run_plan(overlap="NextGeneration")),
        write_run(tmp_path / "runs" / "in <b>order", run_plan()),
    ]
    page = tmp_path / "report.html"
    page.write_text(html_report(read_runs(folders)).replace("</body>", LOOK))

    seen = look(browser, page, tmp_path / "profile")

    assert not seen["wide"]
    assert seen["fetched"] == 0
    assert seen["verdict"].startswith("apart was faster than in <b>order: 8.50 s a step against 12.50 s")
    assert seen["names"] == ["apart", "in <b>order"]
    assert seen["headings"] == ["Timeline", "Seconds per phase", "Pool utilisation", "Reward", "Figures"]
    assert ["step, s", "8.50", "12.50"] in seen["table"]
    assert seen["rewards"] == 2

    apart, in_order = seen["timelines"]
    assert (apart["said"], in_order["said"]) == (["idle 0%", "idle 53%"], ["idle 32%", "idle 68%"])
    for drawn in (apart, in_order):
        for lane, said in zip(drawn["lanes"], drawn["said"], strict=True):
            assert "hatch" in lane["hatched"]
            assert lane["height"] > 10
            covered = sum(piece["width"] for piece in lane["pieces"])
            assert 1 - covered / lane["width"] == pytest.approx(int(said[5:-1]) / 100, abs=0.01)
    # Drawn at one scale: the faster run is shorter by as much as it is faster.
    assert apart["lanes"][0]["width"] / in_order["lanes"][0]["width"] == pytest.approx(8.5 / 12.5, abs=0.01)
    # With NextGeneration the values begin where the actor's log-probs do.
    begins = {piece["name"]: piece["left"] for lane in apart["lanes"] for piece in reversed(lane["pieces"])}
    assert begins["values"] == pytest.approx(begins["old_log_prob"], abs=0.5)

    assert seen["pointed"].startswith("gen of step 4 on actor: 4.00 s")
    assert seen["standing"] == 6
    assert seen["faded"] > 20
