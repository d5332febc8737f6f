"""The options of the plugin, each with an ini setting of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from snapviz.compare.spec import BudgetSpec, parse_budget
from snapviz.errors import UsageError

__all__ = ["SETTINGS", "Settings", "add_options", "read_settings"]

_HELP = {
    "baseline": "compare with this: what an earlier session saved, one run a test, or one run for all tests",
    "save": "keep what tests record here, a directory for each test",
    "fail_on": "fail a test whose run hits this budget, such as phase.train.peak:5%% or dangling:0B; repeatable",
}


@dataclass(frozen=True)
class Settings:
    """What the options of a session mean."""

    baseline: str | None
    # a path or a URL
    save: Path | None
    # absolute
    specs: tuple[BudgetSpec, ...]
    # of --snapviz-fail-on


SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""In the stash of the session's config."""


def add_options(parser: pytest.Parser) -> None:
    """Declares them. Every default is none: a default of argparse's would hide the ini setting."""
    group = parser.getgroup("snapviz", "device memory (snapviz)")
    group.addoption("--snapviz-baseline", metavar="RUN", default=None, help=_HELP["baseline"])
    group.addoption("--snapviz-save", metavar="DIR", default=None, help=_HELP["save"])
    group.addoption("--snapviz-fail-on", metavar="BUDGET", action="append", default=None, help=_HELP["fail_on"])
    parser.addini("snapviz_baseline", "as --snapviz-baseline, from where this file lies", "string")
    parser.addini("snapviz_save", "as --snapviz-save, from where this file lies", "string")
    parser.addini("snapviz_fail_on", "as --snapviz-fail-on, a budget a line", "linelist")


def read_settings(config: pytest.Config) -> Settings:
    """What is asked for. Raises ``pytest.UsageError``: a typing error must not pass for a session without limits."""
    baseline, save = _path(config, "baseline"), _path(config, "save")
    if baseline is not None and "://" not in baseline and not Path(baseline).exists():
        raise pytest.UsageError(f"--snapviz-baseline: {baseline} does not exist")
    if save is not None and "://" in save:
        raise pytest.UsageError(f"--snapviz-save: {save} is no local directory")
    if save is not None and baseline is not None and Path(save).resolve() == Path(baseline).resolve():
        raise pytest.UsageError(
            "--snapviz-save and --snapviz-baseline are the same: every run would be its own baseline"
        )
    specs = _specs(config.getoption("snapviz_fail_on", None) or config.getini("snapviz_fail_on"))
    if baseline is None and (wanting := [spec for spec in specs if spec.bound.relative]):
        raise pytest.UsageError(f"--snapviz-fail-on {wanting[0]}: it is a limit to a baseline: give --snapviz-baseline")
    return Settings(baseline, Path(save) if save is not None else None, specs)


def _path(config: pytest.Config, name: str) -> str | None:
    """A path, absolute: of the command line from where pytest was called, of the ini file from where that lies."""
    given = config.getoption(f"snapviz_{name}", None)
    where = config.invocation_params.dir
    if given is None:
        given = config.getini(f"snapviz_{name}")
        where = config.inipath.parent if config.inipath is not None else config.rootpath
    if not given:
        return None
    return str(given) if "://" in given else str(where / given)


def _specs(texts: list[str]) -> tuple[BudgetSpec, ...]:
    try:
        return tuple(map(parse_budget, texts))
    except UsageError as error:
        raise pytest.UsageError(f"--snapviz-fail-on {error}") from None
