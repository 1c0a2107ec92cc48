"""One headless Chromium for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from fedrulefit.model import Model
from fedrulefit.report import write_report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests on one worker, so that they share the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


def find_chromium() -> str:
    """Return the program, or skip with a reason."""
    named = os.environ.get("FEDRULEFIT_CHROMIUM")
    found = named or which("chromium") or which("chromium-browser") or which("google-chrome")
    if not found:
        pytest.skip("no Chromium: apt-get install chromium, or set FEDRULEFIT_CHROMIUM")
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    with playwright.sync_playwright() as driver:
        # Chromium's sandbox refuses to run as root, as CI does.
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        opened = driver.chromium.launch(executable_path=program, args=sandbox)
        yield opened
        with suppress(Exception):
            opened.close()


@pytest.fixture
def open_report(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a model's report; at the end, demand no error and no request."""
    contexts: list[Any] = []
    wrong: list[str] = []
    asked: list[str] = []

    def open_one(model: Model, *, width: int = 1000, scheme: str = "light") -> Any:
        path = tmp_path / f"report-{len(contexts)}.html"
        write_report(model, path)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("dialog", lambda dialog: wrong.append("a dialog opened"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []
    assert len(asked) == len(contexts), f"more than the page itself was asked for: {asked}"
