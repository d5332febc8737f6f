"""The browser that tests of the dashboard look through."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)


def unavailable(reason: str) -> Any:
    """Skips, except where everything has to be there."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set: this must not be left out)")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a process: SNAPVIZ_CHROMIUM, or the one of the system."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        unavailable("no playwright: pip install playwright")
    place = os.environ.get("SNAPVIZ_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "chromium")
    if not Path(place).exists():
        unavailable(f"no browser: {place} is not there (SNAPVIZ_CHROMIUM names another)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=place, args=list(ARGUMENTS))
        yield found
        found.close()
