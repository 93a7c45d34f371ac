"""The pictures of a report in the documentation: the first screen of the demo's report, in a browser.

    python benchmarks/report_picture.py            # audits the demo, then writes docs/images/report*.png
    python benchmarks/report_picture.py --run runs/demo

It writes report.png (a desktop), report-phone.png (a phone) and report-print.png (the first printed page). It
needs `pip install -e .[dev]` and a Chromium.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
DESKTOP, PHONE = (1280, 900), (390, 844)
PAPER_WIDTH = 760
N_COLORS = 128
"""Colors of a stored picture: a page has few, and the file is a third as large."""
WAIT_MS = 1_500


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="run folder of the demo; by default it is audited now")
    run = parser.parse_args().run
    if run is None:
        run = Path(mkdtemp()) / "demo"
        call = "from leakscope.cli.main import main; main()"
        subprocess.run([sys.executable, "-c", call, "demo", "--out", str(run)], check=True)
    photograph(run / "report.html")


def photograph(page: Path) -> None:
    """The first screen of a page on a desktop and on a phone, and its first printed page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        store(screen(browser, page, DESKTOP), IMAGES / "report.png")
        store(screen(browser, page, PHONE), IMAGES / "report-phone.png")
        store(first_sheet(browser, page), IMAGES / "report-print.png")
        browser.close()


def screen(browser: Browser, page: Path, size: tuple[int, int]) -> Image.Image:
    """The page as it opens."""
    view = browser.new_page(viewport={"width": size[0], "height": size[1]})
    view.goto(page.resolve().as_uri())
    view.wait_for_timeout(WAIT_MS)
    return Image.open(io.BytesIO(view.screenshot()))


def first_sheet(browser: Browser, page: Path) -> Image.Image:
    """The first sheet of A4."""
    import pypdfium2

    view = browser.new_page(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
    view.goto(page.resolve().as_uri())
    view.wait_for_timeout(WAIT_MS)
    sheet = pypdfium2.PdfDocument(view.pdf(format="A4"))[0]
    drawn: Image.Image = sheet.render(scale=PAPER_WIDTH / sheet.get_width()).to_pil()
    return drawn


def store(picture: Image.Image, path: Path) -> None:
    """As PNG with a palette."""
    picture.convert("RGB").quantize(N_COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
