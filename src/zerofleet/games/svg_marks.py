"""Pictures that a game draws of its positions: a part of SVG that cannot do harm on a page.

The text of a class is parsed, compared with lists of elements and attributes, and written again.
A page gets the second text, so a browser never reads the text of the class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree  # nosec B405
from xml.sax.saxutils import escape, quoteattr  # nosec B406

MOST_CHARACTERS = 100_000
"""Longest text of a picture."""
_DEEPEST = 20  # elements inside of each other
_ELEMENTS = frozenset(
    ("g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan")
)
_TEXTS = frozenset(("text", "tspan"))
_COLOURS = ("first", "second", "ink", "edge", "field", "field-2", "paper", "rule", "last")
_NUMBERS = re.compile(r"[-+0-9.eE,%\s]{1,5000}")
_PATH = re.compile(r"[-+0-9.eE,\sMmLlHhVvCcSsQqTtAaZz]{1,20000}")
_MOVE = re.compile(r"((translate|scale|rotate|skewX|skewY|matrix)\([-+0-9.eE,\s]{1,200}\)[\s,]*)+")
_COLOUR = re.compile(rf"#[0-9A-Fa-f]{{3,8}}|[A-Za-z]{{3,30}}|var\(--({'|'.join(_COLOURS)})\)")
_WORD = re.compile(r"[A-Za-z0-9-]{1,20}")
_ATTRIBUTES = {
    **dict.fromkeys(("x", "y", "width", "height", "rx", "ry", "cx", "cy", "r"), _NUMBERS),
    **dict.fromkeys(("x1", "y1", "x2", "y2", "dx", "dy", "points", "rotate"), _NUMBERS),
    **dict.fromkeys(("opacity", "fill-opacity", "stroke-opacity", "font-size"), _NUMBERS),
    **dict.fromkeys(("stroke-width", "stroke-dasharray", "stroke-dashoffset"), _NUMBERS),
    **dict.fromkeys(("stroke-linecap", "stroke-linejoin", "fill-rule", "font-weight"), _WORD),
    **dict.fromkeys(("fill", "stroke"), _COLOUR),
    "d": _PATH,
    "transform": _MOVE,
}


def checked_svg(text: str) -> str:
    """Return a picture, written again.

    Args:
        text: SVG elements without the element ``svg``.

    Raises:
        ValueError: it is not XML, or has an element, an attribute or a value that is not allowed;
            the message names it.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it has {len(text):,} characters; {MOST_CHARACTERS:,} are allowed")
    if "<!" in text or "<?" in text:  # before the parser expands an entity
        raise ValueError("it has a comment, a declaration or a processing instruction: remove it")
    try:
        # Without declarations there are no entities to expand.
        root = ElementTree.fromstring(f"<svg>{text}</svg>")  # nosec B314
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    if any(text and text.strip() for text in (root.text, *(each.tail for each in root))):
        raise ValueError("it has text outside an element: use the element text")
    return "".join(part for each in root for part in _written(each, 1))


def _written(element: ElementTree.Element, depth: int) -> Iterator[str]:
    name = element.tag
    if name not in _ELEMENTS:
        raise ValueError(f"the element '{name[:40]}' is not allowed: use {_listed(_ELEMENTS)}")
    if depth > _DEEPEST:
        raise ValueError(f"its elements are nested more than {_DEEPEST} deep")
    yield f"<{name}"
    for key, value in element.items():
        allowed = _ATTRIBUTES.get(key)
        if allowed is None:
            raise ValueError(
                f"the attribute '{key[:40]}' of {name} is not allowed: use {_listed(_ATTRIBUTES)}"
            )
        if not allowed.fullmatch(value):
            raise ValueError(f"the value {key}='{value[:40]}' of {name} is not allowed")
        yield f" {key}={quoteattr(value)}"
    yield ">"
    yield from _text(element.text, name)
    for child in element:
        yield from _written(child, depth + 1)
        yield from _text(child.tail, name)
    yield f"</{name}>"


def _text(text: str | None, name: str) -> Iterator[str]:
    if name in _TEXTS:
        yield escape(text or "")
    elif text and text.strip():
        raise ValueError(f"text is not allowed in {name}: use the element text")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
