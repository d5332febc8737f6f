"""What is around every page: pickers, links, keys, light and dark, several people at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapviz.app.pages import every
from snapviz.app.state import State
from tests.app.browser import places
from tests.app.browser.conftest import Served
from tests.app.browser.visitor import Visitor

THUNDER = State(base=places.THUNDER[0], head=places.THUNDER[1])
NAMES = [page.NAME for page in every()]


def chosen(run_ids: tuple[str, str], page: str = "compare") -> State:
    return State(page=page, base=run_ids[0], head=run_ids[1])


def test_the_first_screen_says_where_the_memory_is(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    verdict = somebody("#page h1").first.inner_text()
    for words in ("p1", "4.00 MiB", "both ranks", "stays whole after shard"):
        assert words in verdict


def test_a_pair_is_shown_where_none_is_chosen(somebody: Visitor) -> None:
    somebody.page.goto(somebody.url)
    somebody.becomes(base=places.BROKEN[0], head=places.BROKEN[1])  # the smallest of those that could be meant
    # back does not go through the address that was never shown
    assert somebody.page.evaluate("() => history.length") == 2


@pytest.mark.parametrize("name", NAMES)
def test_links_go_to_pages_and_back(somebody: Visitor, name: str) -> None:
    somebody.open(THUNDER)
    somebody(f"#nav a[href^='{State(page=name).url().rstrip('?')}?']").first.click()
    state = somebody.becomes(page=name)
    assert (state.base, state.head) == places.THUNDER
    somebody.expect("#nav a[aria-current=page]").to_have_count(1)
    somebody.expect("#page h1").not_to_have_count(0)
    if name != "compare":
        somebody.page.go_back()
        somebody.becomes(page="compare")
        assert "stays whole after shard" in somebody.text()
        somebody.page.go_forward()
        somebody.becomes(page=name)


def test_keys_go_to_pages(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    for number, name in enumerate(NAMES, 1):
        somebody.page.keyboard.press(str(number))
        somebody.becomes(page=name)
    somebody.page.keyboard.press("9")
    assert somebody.state.page == NAMES[-1]


def test_x_and_the_button_swap(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    somebody.page.keyboard.press("x")
    somebody.becomes(base=places.THUNDER[1], head=places.THUNDER[0])
    assert "lower" in somebody("#page h1").first.inner_text()
    somebody("#swap").click()
    somebody.becomes(base=places.THUNDER[0], head=places.THUNDER[1])
    assert "higher" in somebody("#page h1").first.inner_text()


def test_help_opens_and_escape_closes_it(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    somebody.page.keyboard.press("?")
    dialog = somebody.page.get_by_role("dialog")
    dialog.wait_for()
    assert "zoom in and out" in dialog.inner_text()
    somebody.page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    somebody("#help-button").click()
    dialog.wait_for()


def test_letters_are_off_while_somebody_types(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    before = somebody.state
    field = somebody.picker("base")
    field.click()
    field.fill("")
    somebody.page.keyboard.type("x?2wasdf/")
    assert field.input_value() == "x?2wasdf/"
    assert somebody.page.get_by_role("dialog").count() == 0
    assert somebody.state == before


def test_a_slash_searches(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    somebody.page.keyboard.press("/")
    assert somebody.page.evaluate("() => document.activeElement.tagName") == "INPUT"


@pytest.mark.parametrize(
    ("typed", "found", "not_found"),
    [
        ("h200 thunder pr", "thunder_478/pr", "thunder_478/main"),
        ("trunk", "cut/main", "thunder_478/main"),
        ("WORLD size 8", "litgpt_eager_8/main", "cut/main"),
    ],
)
def test_a_run_is_found_by_what_is_known_of_it(somebody: Visitor, typed: str, found: str, not_found: str) -> None:
    somebody.open(THUNDER)
    somebody.picker("head").fill(typed)
    options = somebody.page.get_by_role("option")
    options.filter(has_text=found).first.wait_for()
    assert options.filter(has_text=not_found).count() == 0


def test_a_run_is_chosen_and_cleared(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    somebody.choose("head", places.EAGER[1])
    somebody.becomes(head=places.EAGER[1])
    somebody(".picker .mantine-InputClearButton-root").last.click()
    somebody.becomes(head="")
    somebody.page.go_back()
    somebody.becomes(head=places.EAGER[1])
    assert somebody.picker("head").input_value() == places.EAGER[1]


def theme(visitor: Visitor) -> str:
    return str(visitor.page.evaluate("() => document.documentElement.dataset.mantineColorScheme"))


def background(visitor: Visitor) -> int:
    """How light the page is: the sum of red, green and blue."""
    script = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    return sum(visitor.page.evaluate(script))


def test_dark_is_remembered(somebody: Visitor) -> None:
    somebody.open(THUNDER)
    assert (theme(somebody), background(somebody) > 600) == ("light", True)
    somebody.page.get_by_label("light or dark").click()
    somebody.until(lambda: theme(somebody) == "dark", "dark")
    assert background(somebody) < 200
    somebody.page.reload()
    somebody.settled()
    assert (theme(somebody), background(somebody) < 200) == ("dark", True)


def test_dark_where_the_system_is(visit: Callable[..., Visitor]) -> None:
    visitor = visit(color_scheme="dark").open(THUNDER)
    assert (theme(visitor), background(visitor) < 200) == ("dark", True)


def test_people_do_not_meet(visit: Callable[..., Visitor]) -> None:
    first, second = visit(), visit()
    first.open(chosen(places.THUNDER))
    second.open(chosen(places.EAGER))
    first.page.get_by_label("light or dark").click()
    first.page.keyboard.press("x")
    first.becomes(base=places.THUNDER[1])
    assert second.state == chosen(places.EAGER)
    assert theme(second) == "light"
    assert "227 parameters" in second("#page h1").first.inner_text()
    assert "lower" in first("#page h1").first.inner_text()


def test_two_dashboards_of_one_process(visit: Callable[..., Visitor], served: Served) -> None:
    runs, none = visit(), visit(served.empty)
    none.open(State())
    runs.open(THUNDER)
    assert "No runs here yet" in none.text()
    assert "p1" in runs.text()


def test_the_policy_allows_no_eval(somebody: Visitor) -> None:
    with somebody.page.expect_response(lambda response: response.url.startswith(somebody.url)) as answer:
        somebody.open(THUNDER)
    policy = answer.value.headers["content-security-policy"]
    assert "unsafe-eval" not in policy
    assert "default-src 'none'" in policy
