"""Does something once a module has been imported; costs nothing where it never is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from snapviz.record.guard import tell

__all__ = ["when_imported"]

Then = Callable[[ModuleType], None]


def when_imported(name: str, then: Then) -> Callable[[], None]:
    """Calls ``then`` with a module: at once where it is imported already, else right after it is.

    An import that fails does so as it would have. What is returned ends the waiting.
    """
    module = sys.modules.get(name)
    if module is not None:
        then(module)
        return lambda: None
    _FINDER.waiting.setdefault(name, []).append(then)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)

    def forget() -> None:
        left = [other for other in _FINDER.waiting.pop(name, []) if other is not then]
        if left:
            _FINDER.waiting[name] = left
        if not _FINDER.waiting and _FINDER in sys.meta_path:
            sys.meta_path.remove(_FINDER)

    return forget


class _Finder(MetaPathFinder):
    """Finds nothing by itself: it asks the others, and has their loader followed by what waits."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find and finder is not self else None
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Followed(spec.loader, self)
                return spec
        return None


class _Followed(Loader):
    """A loader, and after it what waits for the module. It is gone from the module before that runs."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        # not forgotten yet: a module can be dropped from sys.modules and imported again
        for then in list(self._finder.waiting.get(module.__name__, ())):
            try:
                then(module)
            except Exception as error:  # the import itself is fine
                tell(f"{module.__name__} is not followed ({type(error).__name__}: {error})")


_FINDER = _Finder()
