"""50,000 records at 20 checkpoints stay fluid: every step of the slider, from the first, by the page's clock.

The page measures a step from the key that asked for it to the frame that shows it, so work of its own that
happens to be in the way counts. Other processes on the same cores would count too, and no page can help that,
so the time that the browser's threads waited for a core is subtracted: Linux counts it for each of them. One
thread of a process works on a step at a time, so the thread that waited longest counts for its process. On an
idle machine that is next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leakscope.studies.dynamics.records import stored_records
from tests.browser.test_plane import part, ready, until
from tests.report.html.made_up import made_up_study, repeated, setting, written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

Open = Callable[..., "Page"]
FIRST_PAINT_MS, STEP_MS = 3_000, 150
OPENINGS, STEPS, CHECKPOINTS = 2, 40, 20
REST_EVERY, REST_MS = 12, 1_300  # a hand that stops and goes on meets the page's other work, if there is any
_MEASURES = "(name) => performance.getEntriesByName(name).map((m) => [m.startTime, m.duration])"


class Step(NamedTuple):
    """One step of the slider, in milliseconds.

    Attributes:
        shown_after: by the page's clock.
        computed: by its main thread.
        waited: for a core.
    """

    shown_after: float
    computed: float
    waited: float

    @property
    def of_the_page(self) -> float:
        return self.shown_after - self.waited


class Waits:
    """How long threads of the browser have waited for a core, in milliseconds."""

    def __init__(self, browser: Browser) -> None:
        self._session: CDPSession = browser.new_browser_cdp_session()
        self._before = self._by_thread()

    def since_last(self) -> float:
        """Since this was last called: of each process, the thread that waited longest."""
        now = self._by_thread()
        longest: dict[int, float] = {}
        for (process, thread), waited in now.items():
            own = waited - self._before.get((process, thread), 0.0)
            longest[process] = max(longest.get(process, 0.0), own)
        self._before = now
        return sum(longest.values())

    def _by_thread(self) -> dict[tuple[int, str], float]:
        waits = {}
        for process in self._session.send("SystemInfo.getProcessInfo")["processInfo"]:
            for thread in Path(f"/proc/{process['id']}/task").glob("*"):
                with suppress(OSError):  # it has just ended
                    nanoseconds = (thread / "schedstat").read_text().split()[1]
                    waits[process["id"], thread.name] = int(nanoseconds) / 1e6
        return waits


@pytest.fixture
def open_page(open_page: Open) -> Open:
    """Every page in a process that has compiled nothing before."""
    return partial(open_page, fresh=True)


@pytest.fixture(scope="module", params=["one run", "three runs"])
def large_page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("large")
    optimizers = ("sgd",) if request.param == "one run" else ("sgd", "sam", "adamw")
    chosen = tuple(setting(universe=50_000, epochs=40, dataset="cifar10", optimizer=o) for o in optimizers)
    study = repeated(folder, chosen, classes=("cat", "dog"))
    start = time.process_time()
    if len(chosen) == 1:
        study = study._replace(runs=stored_records(folder, study.results))
    path = written(study)
    assert time.process_time() - start < 20
    yield path


def steps_of(page: Page, waits: Waits, n_steps: int = STEPS) -> list[Step]:
    """Steps through the checkpoints and back, by keys, from the moment the slider can be used."""
    session: CDPSession = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    ready(page)
    part(page, "epoch").focus()
    computed, waited = [], []
    for n in range(n_steps):
        if n and n % REST_EVERY == 0:
            page.wait_for_timeout(REST_MS)
        before = main_thread_ms(session)
        waits.since_last()
        page.keyboard.press("ArrowLeft" if n % (2 * CHECKPOINTS - 2) < CHECKPOINTS - 1 else "ArrowRight")
        until(page, f"performance.getEntriesByName('plane step').length === {n + 1}")
        waited.append(waits.since_last())
        computed.append(main_thread_ms(session) - before)
    durations = [duration for _, duration in page.evaluate(_MEASURES, "plane step")]
    return [Step(*step) for step in zip(durations, computed, waited, strict=True)]


def main_thread_ms(session: CDPSession) -> float:
    """What the page's main thread has computed so far, whoever else had its core in between."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(1e3 * m["value"] for m in metrics if m["name"] == "TaskDuration"))


@pytest.mark.slow
def test_every_step_is_quick_from_the_first_one(large_page: Path, browser: Browser, open_page: Open) -> None:
    assert large_page.stat().st_size < 15e6
    for _ in range(OPENINGS):
        waits = Waits(browser)
        page = open_page(large_page)
        waited = waits.since_last()
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert painted - waited < FIRST_PAINT_MS
        steps = steps_of(page, waits)
        assert max(step.computed for step in steps) < STEP_MS, steps
        assert max(step.of_the_page for step in steps) < STEP_MS, steps


@pytest.fixture(scope="module")
def small_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    return written(made_up_study(folder, (setting(),)))


def test_a_page_that_computes_too_much_is_noticed(
    small_page: Path, browser: Browser, open_page: Open
) -> None:
    page = ready(open_page(small_page))
    page.evaluate("""() => document.querySelector("[data-part=epoch]").addEventListener("input", () => {
        let sum = 0;
        for (let n = 0; n < 1e9; n++) sum += Math.sqrt(n);
        window.sum = sum;
    })""")
    steps = steps_of(page, Waits(browser), n_steps=2)
    assert min(step.computed for step in steps) > STEP_MS
    assert min(step.shown_after for step in steps) > STEP_MS


def test_the_plane_is_seen_before_plotly_is_there_and_used_after(small_page: Path, open_page: Open) -> None:
    page = open_page(small_page)
    part(page, "epoch").focus()
    page.keyboard.press("ArrowLeft")  # at once: moves it or does nothing, and never fails
    ready(page)
    part(page, "epoch").focus()
    page.keyboard.press("ArrowLeft")
    until(page, "performance.getEntriesByName('plane step').length > 0")
    spans: dict[str, Any] = {
        name: page.evaluate(_MEASURES, name)[0] for name in ("plane opened", "plotly evaluated", "plane step")
    }
    ends = {name: start + duration for name, (start, duration) in spans.items()}
    assert ends["plane opened"] <= spans["plotly evaluated"][0]
    assert ends["plotly evaluated"] <= spans["plane step"][0]


# As if somebody moved the slider from the start: else a busy machine draws every chart before a test looks.
HELD = "window.held = setInterval(() => window.leakscope?.hold(), 20);"


@pytest.mark.slow
def test_no_chart_is_drawn_while_the_slider_moves_and_all_are_afterwards(
    small_page: Path, open_page: Open
) -> None:
    page = ready(open_page(small_page, script=HELD))
    drawn = page.evaluate("""async () => {
        clearInterval(held);
        const slider = document.querySelector("[data-part=epoch]"), counts = [];
        for (let n = 0; n < 40; n++) {
            slider.value = n % 5;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            counts.push(document.querySelectorAll(".chart .main-svg:first-child").length);
            await new Promise((later) => setTimeout(later, 60));
        }
        return counts;
    }""")
    n_charts = page.locator(".chart").count()
    assert drawn[0] == drawn[-1] < n_charts  # for more than two seconds
    until(page, f"document.querySelectorAll('.chart .main-svg:first-child').length === {n_charts}")


def test_printing_draws_what_was_not_drawn_yet(small_page: Path, open_page: Open) -> None:
    page = ready(open_page(small_page, script=HELD))
    count = "document.querySelectorAll('.chart .main-svg:first-child').length"
    missing = page.locator(".chart").count() - page.evaluate(count)
    assert missing > 0
    page.pdf(format="A4")
    assert page.evaluate(count) == page.locator(".chart").count()
