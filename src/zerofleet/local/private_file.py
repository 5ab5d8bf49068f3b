"""Small files that only their owner reads."""

from pathlib import Path


def write_private(path: Path, content: str) -> None:
    """Write a file of mode 0600 in one step; at no moment may anybody else read it."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.touch(0o600)
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)
