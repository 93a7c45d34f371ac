"""The picture of a report in the README: the first screen of the demo's report, in a browser.

    python benchmarks/report_picture.py            # audits the demo, then writes docs/images/report.png
    python benchmarks/report_picture.py --run runs/demo

It needs playwright and a Chromium (`pip install -e .[dev]`, or the system's).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1280, 770


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
    photograph(run / "report.html", PICTURE)


def photograph(page: Path, picture: Path) -> None:
    """The first screen of a page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        view.goto(page.resolve().as_uri())
        view.wait_for_timeout(1000)
        view.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    main()
