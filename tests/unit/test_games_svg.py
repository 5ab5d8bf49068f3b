"""Pictures that games draw: what a page may show, and what is refused by name."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.dots_and_boxes import DotsAndBoxes
from tests.unit.test_games_class import Sticks, named
from zerofleet.errors import ConfigError
from zerofleet.games.conformance import check_conformance
from zerofleet.games.python_game import ClassRules
from zerofleet.games.svg_marks import checked_svg
from zerofleet.services.dashboard.board import GameBoard

__all__ = ["named"]
DOTS = "python:examples.dots_and_boxes:DotsAndBoxes"


def test_marks_are_written_anew() -> None:
    text = """
    <g transform="translate(1 2) rotate(45)" fill='var(--first)'>
      <path d="M0 0L1,1Z" stroke="#a0f" stroke-width=".1"/>
      <text x="0.5" y="0.5" font-size="0.6">A &lt; B<tspan dx="1">!</tspan></text>
    </g>
    <circle cx="1" cy="1" r="0.4" fill="red" fill-opacity="50%"/>"""
    assert checked_svg(text) == (
        '<g transform="translate(1 2) rotate(45)" fill="var(--first)">'
        '<path d="M0 0L1,1Z" stroke="#a0f" stroke-width=".1"></path>'
        '<text x="0.5" y="0.5" font-size="0.6">A &lt; B<tspan dx="1">!</tspan></text></g>'
        '<circle cx="1" cy="1" r="0.4" fill="red" fill-opacity="50%"></circle>'
    )
    assert checked_svg("") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<script>alert(1)</script>", "the element 'script' is not allowed: use circle, ellipse"),
        ("<g><foreignObject/></g>", "the element 'foreignObject'"),
        ("<a href='javascript:alert(1)'><g/></a>", "the element 'a'"),
        ("<style>*{display:none}</style>", "the element 'style'"),
        ("<image href='https://example.org/x'/>", "the element 'image'"),
        ("<use href='#x'/>", "the element 'use'"),
        ("<animate attributeName='x'/>", "the element 'animate'"),
        ('<s:script xmlns:s="http://www.w3.org/2000/svg"/>', "is not allowed"),
        ('<rect xmlns="http://www.w3.org/1999/xhtml"/>', "is not allowed"),
        ("<RECT/>", "the element 'RECT'"),
        ("<rect onclick='alert(1)'/>", "the attribute 'onclick' of rect is not allowed: use cx"),
        ("<rect style='fill:red'/>", "the attribute 'style'"),
        ("<rect class='zf-piece'/>", "the attribute 'class'"),
        ("<rect id='app'/>", "the attribute 'id'"),
        ("<rect fill='url(https://example.org/x)'/>", "fill='url.* of rect is not allowed"),
        ("<rect fill='var(--other)'/>", "fill='var"),
        ("<rect x='1;2'/>", "x='1;2'"),
        ("<path d='M0 0' transform='expression(1)'/>", "transform='expression"),
        ("<g>&#60;script&#62;</g>", "text is not allowed in g"),
        ("words", "text outside an element: use the element text"),
        ("<g/>words", "text outside an element: use the element text"),
        ("<g>", "it is not XML"),
        ("</svg><script/><svg>", "it is not XML"),
        ("<text>&bomb;</text>", "it is not XML"),
        ("<!DOCTYPE svg [<!ENTITY a 'b'>]><text>&a;</text>", "a declaration"),
        ("<!-- --><g/>", "it has a comment"),
        ("<?xml-stylesheet href='x'?>", "processing instruction"),
        ("<g>" * 30 + "</g>" * 30, "its elements are nested more than 20 deep"),
        ("<g/>" * 30_000, "it has 120,000 characters; 100,000 are allowed"),
        ("<rect x='\x00'/>", "it is not XML"),
    ],
)
def test_all_else_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        checked_svg(text)
    assert len(str(caught.value)) < 600


NAMES = st.sampled_from(["g", "rect", "text", "script", "a", "path", "svg", "x:g", "b"])
KEYS = st.sampled_from(["x", "fill", "onload", "href", "d", "style", "xmlns", "transform"])
ELEMENT = st.builds(
    lambda name, key, value, inside: f'<{name} {key}="{value}">{inside}</{name}>',
    NAMES,
    KEYS,
    st.text("0123 ()<>&;:'\"/#abcjurlvM-\x0b\u2028", max_size=12),
    st.text("<>&;/ab ", max_size=6),
)


@given(st.lists(ELEMENT | st.text(max_size=20), max_size=4).map("".join))
def test_whatever_is_let_through_is_harmless(text: str) -> None:
    try:
        written = checked_svg(text)
    except ValueError:
        return
    for each in ElementTree.fromstring(f"<svg>{written}</svg>").iter():
        assert each.tag in ("svg", "g", "rect", "text", "path")
        for key, value in each.items():
            assert key in ("x", "fill", "d", "transform")
            assert not re.search(r"url|[<>&;:\"']", value)


def test_a_class_draws_its_positions() -> None:
    rules = ClassRules(DOTS, DotsAndBoxes)
    assert rules.draws
    position = rules.start()
    before = position.svg()
    assert before.count("<circle") == 12
    position.apply(0)
    assert position.svg() != before


class Drawn(Sticks):
    def svg(self) -> str:
        return f'<text x="0.5" y="0.5">{self.left}</text>'


class Unsafe(Sticks):
    def svg(self) -> str:
        return "<g onload='alert(1)'/>" if self.left < 4 else ""


class Numbers(Sticks):
    def svg(self) -> str:
        return self.left  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class Changes(Sticks):
    def svg(self) -> str:
        self.left -= 1
        return ""


def test_check_conformance_looks_at_the_pictures(named) -> None:  # noqa: ANN001  # pyright: ignore
    check_conformance(named(Drawn), games=2)
    with pytest.raises(ConfigError, match=r"ply \d: svg\(\): the attribute 'onload' of g is not"):
        check_conformance(named(Unsafe), games=2)
    with pytest.raises(AssertionError, match=r"svg\(\) changes the position, or its answer varies"):
        check_conformance(named(Changes), games=2)


def test_a_value_that_is_no_text(named) -> None:  # noqa: ANN001  # pyright: ignore
    with pytest.raises(ConfigError, match=r"svg\(\) returned 7: give SVG elements, a str"):
        check_conformance(named(Numbers), games=2)


def test_the_board_has_the_picture_or_the_pieces() -> None:
    board = GameBoard(DOTS)
    assert board.shape.pictured
    assert board.position([0]).picture == checked_svg(board.position([0]).picture) != ""
    assert board.position([0]).pieces  # for the actions' points
    assert GameBoard("tic_tac_toe").start.picture == ""


def test_a_picture_with_a_mistake_is_left_out(named) -> None:  # noqa: ANN001  # pyright: ignore
    board = GameBoard(named(Unsafe))
    assert board.position([1, 1]).picture == ""
