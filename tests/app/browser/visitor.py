"""Somebody who looks at the dashboard, and minds everything that the browser complains about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, Response, expect

from snapviz.app.state import State

__all__ = ["Visitor"]

_COUNTS_REQUESTS = """
(() => {
  const ask = window.fetch.bind(window);
  window.asked = { open: 0, last: 0 };
  window.fetch = (...given) => {
    window.asked.open += 1;
    const done = () => { window.asked.open -= 1; window.asked.last = performance.now(); };
    const answer = ask(...given);
    answer.then(done, done);
    return answer;
  };
})();
"""

_IS_SETTLED = """
since => window.asked.last > 0 && window.asked.open === 0
  && performance.now() - Math.max(window.asked.last, Math.min(since, performance.now())) > 250
  && document.querySelector("#page h1, #status > *, #problem > *")
  && !document.querySelector(".dash-graph--pending, [data-dash-is-loading=true]")
"""


class Visitor:
    """One browser context and one page in it; ``complaints`` is what must stay empty."""

    def __init__(self, context: BrowserContext, url: str, log: Path) -> None:
        self.url = url.rstrip("/")
        self.complaints: list[str] = []
        self.asked: list[Request] = []
        self._log, self._logged = log, log.stat().st_size
        context.add_init_script(_COUNTS_REQUESTS)
        self.page: Page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("request", self._request)
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._response)

    # ------------------------------------------------------------------ going somewhere

    def open(self, state: State) -> Visitor:
        """Goes to a state's URL, as a link from elsewhere does."""
        self.page.goto(self.url + state.url())
        return self.settled()

    def settled(self) -> Visitor:
        """Waits until the page has all it asked for, and has drawn it."""
        # what was done just now may not have been asked for yet
        since = self.page.evaluate("() => performance.now()")
        self.page.wait_for_function(_IS_SETTLED, arg=since)
        return self

    def becomes(self, **changes: Any) -> State:
        """Waits until the address says so; the state it has then."""
        was = self.state
        wanted = was.with_(**changes)
        self.until(lambda: all(getattr(self.state, key) == getattr(wanted, key) for key in changes), f"{changes}")
        self.settled()
        return self.state

    def until(self, holds: Callable[[], bool], words: str) -> None:
        """Waits until something holds."""
        for _ in range(200):
            if holds():
                return
            self.page.evaluate("() => new Promise(done => setTimeout(done, 50))")
        raise AssertionError(f"never came: {words}; the address is {self.page.url}")

    @property
    def state(self) -> State:
        """What the address says."""
        parts = urlsplit(self.page.url)
        return State.from_url(parts.path, parts.query)

    # ------------------------------------------------------------------ looking

    def __call__(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def text(self) -> str:
        """Everything that can be read on the page."""
        return self.page.inner_text("main")

    def shown(self) -> dict[str, Any]:
        """What is shown, to compare with later: its text without charts, and the address."""
        return {"text": self.text(), "state": replace(self.state)}

    def picker(self, key: str) -> Locator:
        """The field of a run's picker."""
        return self(f'.picker input[id*=\'"key":"{key}"\']').first

    def choose(self, key: str, run_id: str) -> None:
        """Finds a run in a picker by its id, and takes it."""
        self.picker(key).fill(run_id)
        self.page.get_by_role("option", name=run_id).locator("visible=true").first.click()

    def widest(self) -> int:
        """Pixels that the page is wider than the window."""
        return int(self.page.evaluate("() => document.scrollingElement.scrollWidth - window.innerWidth"))

    def expect(self, selector: str) -> Any:
        """Playwright's waiting assertion."""
        return expect(self(selector))

    # ------------------------------------------------------------------ complaints

    def check(self) -> None:
        """Raises where the browser or the server has complained."""
        with self._log.open("rb") as log:
            log.seek(self._logged)
            text = log.read().decode("utf-8", "replace")
        if "Traceback" in text or "internal error" in text:
            self.complaints.append(text[-1500:])
        assert not self.complaints, "\n".join(self.complaints)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            first = message.text.partition("\n")[0]  # what follows is a stack of minified code
            self.complaints.append(f"console {message.type}: {first[:500]}")

    def _request(self, request: Request) -> None:
        self.asked.append(request)
        if not request.url.startswith((self.url, "data:", "blob:", "about:")):
            self.complaints.append(f"asked another host: {request.url}")

    def _failed(self, request: Request) -> None:
        # leaving a page ends what it was still asking for
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} for {response.url}")
