"""The vulnerability plane in a real browser: slider, play, brush, click, search, hostile text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.report.html.made_up import CLASSES, HOSTILE, Study, made_up_study, setting, written

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., "Page"]
_INK = """() => {
    const canvas = document.querySelector("[data-part=cloud]"), copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext("2d", {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);
    const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
    const sum = {left: 0, all: 0, red: 0};
    for (let p = 0; p < data.length; p += 4) {
        if (!data[p + 3]) continue;
        const x = (p / 4) % canvas.width, y = Math.floor(p / 4 / canvas.width);
        sum.all++;
        if (x < canvas.width / 3 && y < canvas.height / 3) sum.left++;
        if (data[p] > data[p + 2]) sum.red++;
    }
    return sum;
}"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    found = made_up_study(tmp_path_factory.mktemp("study") / "one", (setting(),), HOSTILE)
    written(found)
    return found


@pytest.fixture
def page(study: Study, open_page: Open) -> Page:
    return ready(open_page(study.folder / "report.html"))


def ready(page: Page) -> Page:
    page.wait_for_selector('#plane[data-state="ready"]')
    return page


def part(page: Page, name: str) -> Locator:
    return page.locator(f'[data-part="{name}"]')


def until(page: Page, expression: str) -> None:
    """Waits; the page's policy forbids playwright's own way, which evaluates text inside the page."""
    deadline = time.monotonic() + 60  # more than a busy machine needs
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def move_to(page: Page, checkpoint: int) -> None:
    slider = part(page, "epoch")
    slider.evaluate(
        "(s, t) => { s.value = t; s.dispatchEvent(new Event('input', {bubbles: true})); }", checkpoint
    )


def at(page: Page, fpr: float, tpr: float) -> tuple[float, float]:
    """Where on the screen a point of the plane is."""
    box = part(page, "overlay").bounding_box()
    assert box is not None
    scale = box["width"] / 600
    x, y = 56 + 534 * (fpr + 0.06) / 1.12, 10 + 534 * (1 - (tpr + 0.06) / 1.12)
    return box["x"] + scale * x, box["y"] + scale * y


def brush(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    part(page, "overlay").scroll_into_view_if_needed()
    page.mouse.move(*at(page, *start))
    page.mouse.down()
    page.mouse.move(*at(page, *end), steps=4)
    page.mouse.up()


def test_the_slider_moves_the_plane(study: Study, page: Page) -> None:
    last = page.evaluate(_INK)
    move_to(page, 0)
    first = page.evaluate(_INK)
    assert first["left"] / first["all"] < 0.6 * last["left"] / last["all"]  # the corner fills with training
    (first_share, *_) = study.results.runs["digits-mlp-sgd"].figures.vulnerable.value
    assert first_share is not None
    assert f"2 of 10: {100 * first_share:.1f}% in the corner" in part(page, "now").inner_text()
    part(page, "epoch").focus()
    page.keyboard.press("ArrowRight")
    assert part(page, "now").inner_text().startswith("4 of 10")
    until(page, "performance.getEntriesByName('plane step').length === 2")


def test_play_goes_through_all_checkpoints_and_stops_at_the_last(page: Page) -> None:
    play = part(page, "play")
    play.click()
    assert play.get_attribute("aria-pressed") == "true"
    until(page, "document.querySelector('[data-part=epoch]').value === '2'")
    until(page, "document.querySelector('[data-part=play]').getAttribute('aria-pressed') === 'false'")
    assert part(page, "now").inner_text().startswith("10 of 10")


def test_a_brushed_region_lists_its_records(study: Study, page: Page) -> None:
    states = study.runs[0].paths.states[-1]
    wanted = ((states[:, 0] < 0.3) & (states[:, 1] > 0.7)).sum()  # rates are quarters, jitter is below 0.05
    brush(page, (-0.05, 0.65), (0.35, 1.05))
    assert part(page, "count").inner_text().startswith(f"{wanted} records at epoch 10")
    assert part(page, "region").input_value() == "brush"
    advantages = [float(text) for text in page.locator("[data-part=rows] td:nth-child(5)").all_inner_texts()]
    assert len(advantages) == min(50, wanted) and advantages == sorted(advantages, reverse=True)
    assert advantages[-1] >= 0.5
    move_to(page, 0)
    assert "at epoch 2" in part(page, "count").inner_text()


def test_a_cell_can_be_chosen_without_a_mouse(study: Study, page: Page) -> None:
    part(page, "region").select_option(label="FPR 0-33%, TPR 67-100% (vulnerable)")
    expected = int(study.runs[0].vulnerable[-1].sum())
    assert part(page, "count").inner_text().startswith(f"{expected} record")
    if expected > 50:
        part(page, "more").click()
    assert page.locator("[data-part=rows] tr").count() == expected


def test_a_click_on_the_plane_opens_a_trajectory(study: Study, page: Page) -> None:
    where = page.evaluate("""() => {
        const canvas = document.querySelector("[data-part=cloud]"), box = canvas.getBoundingClientRect();
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const p = data.findIndex((value, k) => k % 4 === 3 && value) >> 2;
        const [x, y] = [p % canvas.width, Math.floor(p / canvas.width)];
        return [(x + 0.5) / canvas.width, (y + 2.5) / canvas.height];
    }""")
    part(page, "overlay").scroll_into_view_if_needed()
    box = part(page, "cloud").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + where[0] * box["width"], box["y"] + where[1] * box["height"])
    panel = part(page, "record")
    assert panel.is_visible()
    assert len(part(page, "path").get_attribute("points").split()) == 5  # type: ignore[union-attr]
    assert panel.locator("polyline").count() == 2
    page.keyboard.press("Escape")
    assert not panel.is_visible() and part(page, "path").get_attribute("points") == ""


def test_a_record_of_the_list_opens_with_its_rates_and_hardness(study: Study, page: Page) -> None:
    part(page, "search").fill("record-00042")
    assert page.locator("[data-part=rows] tr").count() == 1
    page.locator("[data-part=rows] button").click()
    panel = part(page, "record")
    advantage = study.runs[0].paths.advantage[-1, 42]
    assert f"Advantage at the end {advantage:.2f}" in panel.inner_text()
    assert "Share of the records that are less hard, by measure" in panel.inner_text()
    panel.locator("summary").click()
    cells = panel.locator("td").all_inner_texts()
    rates = study.runs[0].paths.states[:, 42]
    expected = [[f"{epoch}", f"{100 * fpr:.0f}%", f"{100 * tpr:.0f}%", f"{tpr - fpr:.2f}"]
                for epoch, (fpr, tpr) in zip(study.runs[0].paths.epochs, rates, strict=True)]  # fmt: skip
    assert cells == [cell for row in expected for cell in row]


def test_hostile_ids_and_labels_are_text(page: Page) -> None:
    for text in HOSTILE[:6]:
        part(page, "search").fill(text)
        button = page.locator("[data-part=rows] button").first
        assert button.evaluate("b => b.textContent") == text
        button.click()
        assert page.locator("#plane h3").evaluate("h => h.textContent") == text
    part(page, "search").fill("javascript:")
    page.locator("[data-part=rows] button").first.click()
    part(page, "search").fill(CLASSES[0])
    assert page.locator("[data-part=rows] td:nth-child(2)").first.evaluate("c => c.textContent") == CLASSES[0]
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")  # long text does not overflow
    assert page.locator("#plane img, #plane b").count() == 0


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_have_their_own_colours(study: Study, open_page: Open, dark: bool) -> None:
    page = ready(open_page(study.folder / "report.html", dark=dark))
    colour = "() => getComputedStyle(document.body).backgroundColor"
    ink = "() => document.querySelector('[data-part=cloud]').toDataURL()"
    before = page.evaluate(colour), page.evaluate(ink)
    page.locator("#theme").click()
    after = page.evaluate(colour), page.evaluate(ink)
    assert before[0] != after[0] and before[1] != after[1]
    assert (before[0] == "rgb(255, 255, 255)") is not dark


def test_a_phone_needs_no_sideways_scrolling(study: Study, open_page: Open) -> None:
    page = ready(open_page(study.folder / "report.html", width=390, height=844))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = part(page, "overlay").bounding_box()
    assert box is not None and box["width"] > 300


def test_it_prints_with_the_plane_and_without_controls(page: Page) -> None:
    page.emulate_media(media="print")
    assert not part(page, "play").is_visible() and not part(page, "search").is_visible()
    assert part(page, "cloud").is_visible() and page.evaluate(_INK)["all"] > 100
    assert len(page.pdf(format="A4")) > 20_000


def test_several_runs_share_the_plane(tmp_path: Path, open_page: Open) -> None:
    found = made_up_study(tmp_path, (setting(), setting(optimizer="sam", epochs=6)))
    page = ready(open_page(written(found)))
    before = page.evaluate(_INK)
    part(page, "run").select_option(label="digits-mlp-sam")
    until(page, "document.querySelector('[data-part=epoch]').max === '2'")
    assert part(page, "now").inner_text().startswith("6 of 6")
    assert page.evaluate(_INK)["red"] < 0.9 * before["red"]


def test_one_checkpoint_has_nothing_to_move(tmp_path: Path, open_page: Open) -> None:
    found = made_up_study(tmp_path, (setting(epochs=2),))
    page = ready(open_page(written(found)))
    assert part(page, "epoch").is_disabled() and part(page, "play").is_disabled()
    page.locator("[data-part=rows] button").first.click()
    assert part(page, "record").locator("circle").count() == 2  # one dot a rate: a line would be invisible
