"""What every test stands on: real files where they are there, a cache that is not the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
# No deadline: numba compiles inside the first example. In CI the examples are derived from the test
# itself, so that one commit has one answer and a failure belongs to the change that shows it; new
# examples are what a developer's own runs look for.
settings.register_profile("dev", _COMMON)
settings.register_profile("ci", _COMMON, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real snapshots beside the checkout, or where SNAPVIZ_SHARED says."""
    named = os.environ.get("SNAPVIZ_SHARED")
    place = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    if not place.is_dir():
        pytest.skip(f"no real snapshots: {place} is not a folder (SNAPVIZ_SHARED names another)")
    return place


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the cache of the person who runs it."""
    monkeypatch.setenv("SNAPVIZ_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
