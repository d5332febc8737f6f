"""Windows of modules as arrays."""

from __future__ import annotations

from typing import Any

from snapviz.analyze.module_windows import ModuleWindows, module_windows
from snapviz.schema import RECOMPUTED
from tests.analyze.builders import record


def windows(**modules: Any) -> ModuleWindows:
    found = module_windows(record([], modules=modules))
    assert found is not None
    return found


def test_without_windows_there_are_none() -> None:
    assert module_windows(None) is None
    assert module_windows(record([])) is None


def test_none_were_kept() -> None:
    found = windows(complete=False)
    assert len(found) == 0
    assert not found.complete


def test_each_has_a_name_times_and_whether_it_ran_again() -> None:
    found = windows(names=("", "a"), windows=((0, 10, 90, 0), (1, 20, 30, 0), (1, 40, 50, RECOMPUTED | 64)))
    assert [found.names[name] for name in found.name] == ["", "a", "a"]
    assert found.start_us.tolist() == [10, 20, 40]
    assert found.stop_us.tolist() == [90, 30, 50]
    assert found.recomputed.tolist() == [False, False, True], "flags of a newer recorder are let be"
    assert found.complete


def test_they_are_in_order_whatever_a_file_says() -> None:
    found = windows(names=("a", "b", "c"), windows=((0, 40, 30, 0), (1, 10, 90, 0), (2, 10, 20, 0)))
    assert [found.names[name] for name in found.name] == ["b", "c", "a"]
    assert found.stop_us.tolist() == [90, 20, 40], "one that ends before it begins ends there"
