"""The rules as data: the shipped ones, a user's, and every way a user's file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapviz.analyze.facts import CATEGORIES
from snapviz.analyze.passes import analyze
from snapviz.analyze.rules import built_in_rules, read_rules
from snapviz.errors import UsageError
from tests.analyze.builders import Trace, frame


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_rule_names_a_category_says_why_and_looks_for_something() -> None:
    for rule in built_in_rules():
        assert rule.category in CATEGORIES
        assert rule.why
        assert rule.derived or rule.functions or rule.files or rule.symbols


def test_a_users_rule_comes_before_ours_and_names_the_owner(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[[rule]]\ncategory = "buffer"\nwhy = "our KV cache"\nfunctions = ["make_cache"]\nowner = "KV cache"\n',
    )
    trace = Trace()
    trace.alloc(20, frame("make_cache", "/w/serve.py"), frame("forward", "/w/model.py"))
    trace.alloc(22, frame("forward", "/w/model.py"))
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), rules=read_rules(path))
    assert [CATEGORIES[code] for code in facts.category] == ["buffer", "activation"]
    assert [facts.owners[i] for i in facts.owner] == ["KV cache", ""]
    assert [facts.rules[i].why for i in facts.rule] == ["our KV cache", "inside forward"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rule = 3", "tables [[rule]]"),
        ("[[rule]\n", "not TOML"),
        ("[other]\nx = 1\n", "nothing else in the file"),
        ('[[rule]]\nwhy = "x"\nfunctions = ["f"]\n', "rule 1: category is missing"),
        ('[[rule]]\ncategory = "cache"\nwhy = "x"\nfunctions = ["f"]\n', "no category 'cache'"),
        ('[[rule]]\ncategory = "buffer"\nfunctions = ["f"]\n', "rule 1: why is missing"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\n', "it looks for nothing"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\nfunctions = "f"\n', "functions is a list of texts"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\nfiles = [""]\n', "files is a list of texts, none of them empty"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\nfiles = ["a"]\nnear = 1\n', "near is true or false"),
        ('[[rule]]\ncategory = "buffer"\nwhy = 3\nfiles = ["a"]\n', "why is text"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\nfunction = ["f"]\n', "no such key: function"),
        ('[[rule]]\ncategory = "buffer"\nwhy = "x"\nfiles = ["a"]\nid = "engine"\n', "snapviz's own rules"),
    ],
)
def test_a_wrong_file_says_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_rules(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_rules(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'why = "\xe9"')
    with pytest.raises(UsageError, match="not UTF-8"):
        read_rules(tmp_path / "latin.toml")


def test_what_is_no_file_or_too_large_is_refused_and_an_editors_mark_is_not(tmp_path: Path) -> None:
    for path, says in (
        ("/dev/zero", "not a regular file"),
        (tmp_path, "not a regular file"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=says):
            read_rules(path)
    (tmp_path / "large.toml").write_bytes(b"#" * (5 << 20))
    with pytest.raises(UsageError, match="more than 4 MiB"):
        read_rules(tmp_path / "large.toml")
    (tmp_path / "bom.toml").write_bytes(b'\xef\xbb\xbf[[rule]]\ncategory = "buffer"\nwhy = "x"\nfunctions = ["f"]\n')
    assert read_rules(tmp_path / "bom.toml")[0].why == "x"


def test_more_rules_than_an_integer_has_bits(tmp_path: Path) -> None:
    one = '[[rule]]\ncategory = "buffer"\nwhy = "w{0}"\nfunctions = ["f{0}"]\n'
    path = written(tmp_path, "".join(one.format(i) for i in range(200)))
    trace = Trace()
    trace.alloc(20, frame("f199"), frame("f150"))
    snap = trace.snap()
    facts = analyze(0, snap.columns, snap.replay(0), rules=read_rules(path))
    assert facts.rules[int(facts.rule[0])].why == "w150"
