"""A store's URL that names the file of its password: ``...?password_file=PATH``.

The URL can then go wherever URLs go; the password is read at each connection, so that a rotated
one is taken up.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

_KEY = "password_file"


def with_password_file(url: str, path: Path | None) -> str:
    """The URL with the file's name in it, in place of one named before; unchanged without one."""
    if path is None:
        return url
    bare, _ = split_password_file(url)
    return f"{bare}{'&' if '?' in bare else '?'}{_KEY}={quote(os.fsencode(path), safe='/')}"


def split_password_file(url: str) -> tuple[str, Path | None]:
    """The URL as others understand it, and apart from it the file, if one is named."""
    # Not by urllib: what it puts together again is not always what it took apart.
    bare, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    given = (each.partition("=")[2] for each in options if each.startswith(f"{_KEY}="))
    paths = [os.fsdecode(unquote_to_bytes(each)) for each in given]
    rest = "&".join(each for each in options if not each.startswith(f"{_KEY}="))
    return (f"{bare}?{rest}" if rest else bare), (Path(paths[-1]) if paths else None)
