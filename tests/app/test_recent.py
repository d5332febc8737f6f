"""What was used last stays."""

from __future__ import annotations

from snapviz.app.recent import Recent


def test_what_was_used_longest_ago_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    assert (recent.put("a", 1), recent.put("b", 2)) == (1, 2)
    assert recent.get("a") == 1  # used: now b is the older one
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    recent.put("a", 4)  # no other goes for it
    assert [recent.get(key) for key in "ac"] == [4, 3]
