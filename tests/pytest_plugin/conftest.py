"""An inner pytest with the plugin, and a stand-in for a device in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapviz.testing import assert_phase_peak
from tests.analyze.builders import ROOT, sample

NO_DASH = ("-p", "no:dash")
"""dash brings a plugin of its own, which warns while it loads: where warnings are errors, nothing runs."""

CONFTEST = """
import pytest
from tests.record.builders import MIB, FakeBackend

@pytest.fixture
def device(monkeypatch):
    backend = FakeBackend()
    monkeypatch.setattr("snapviz.record.backend.cuda_backend", lambda: backend)
    return backend
"""
"""A device for tests that ask for it."""

Inner = Callable[..., pytest.RunResult]


@pytest.fixture(scope="session")
def _loaded() -> None:
    """What an inner session imports it drops again, and numpy, numba and torch load once in a process: so before it."""
    from snapviz.pytest_plugin import judging, memory
    from snapviz.record import recorder, write

    del judging, memory, recorder, write
    # replays, and so has numba load what it loads when it first compiles
    with pytest.raises(AssertionError):
        assert_phase_peak(sample("main"), "train", 0)


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, _loaded: None) -> Inner:
    """Runs tests, given as source, in a session of their own that has the plugin, in this process."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "100")
    pytester.syspathinsert(ROOT)

    def run(source: str, *arguments: str, conftest: str = "", subprocess: bool = False) -> pytest.RunResult:
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=source)
        # -p works where snapviz is installed as well, and its entry point has loaded the plugin
        command = (
            *NO_DASH,
            "-p",
            "snapviz.pytest_plugin",
            "--strict-markers",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            *arguments,
        )
        return pytester.runpytest_subprocess(*command) if subprocess else pytester.runpytest_inprocess(*command)

    return run
