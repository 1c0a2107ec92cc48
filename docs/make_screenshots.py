"""Takes the pictures of the demo's report: ``python docs/make_screenshots.py DEMO_FOLDER``.

Needs the development environment and Chromium. The folder is one that
``fedrulefit demo -o DEMO_FOLDER`` has written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import which

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
PATIENT = {"#x0": "67", "#x2": "29", "#x3": "5"}


def take(page: Page, name: str, top: str, bottom: str) -> None:
    """Take the part of the page from the upper end of `top` to the lower end of `bottom`."""
    first, last = (page.locator(place).bounding_box() for place in (top, bottom))
    if first is None or last is None:
        raise SystemExit(f"the page has no {top} or {bottom}")
    start, end = max(first["y"] - 24, 0), last["y"] + last["height"] + 24
    width = page.viewport_size["width"] if page.viewport_size else 1040
    clip = {"x": 0, "y": start, "width": width, "height": end - start}
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)


def main(folder: Path) -> None:
    """Fill in a patient, and take the page in light and dark."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=which("chromium"), args=[] if os.geteuid() else ["--no-sandbox"]
        )
        for name, scheme, top, bottom in (
            ("report-light.png", "light", "header", "#calculator"),
            ("report-dark.png", "dark", "#rules", "#effects"),
            ("report-performance.png", "light", "#performance", "#performance"),
        ):
            page = browser.new_page(
                viewport={"width": 1040, "height": 900},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            page.goto((folder / "report.html").resolve().as_uri())
            page.locator("#x1").select_option("1")
            for place, text in PATIENT.items():
                page.locator(place).fill(text)
            page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
            take(page, name, top, bottom)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
