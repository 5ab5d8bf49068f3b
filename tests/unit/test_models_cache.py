"""Files of a bucket in the cache on disk, and their eviction."""

import hashlib
import os
import resource
from pathlib import Path

from zerofleet.models.bucket import ModelCache
from zerofleet.models.folder import ModelFolder


def test_the_longest_unused_leave_first(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "run")
    cache = ModelCache(folder, most_bytes=30)
    contents = [bytes([number]) * 10 for number in range(5)]
    names = [hashlib.sha256(content).hexdigest() for content in contents]

    def put(number: int) -> None:
        cache.put(contents[number])
        # the files' times differ by a second each
        os.utime(folder.path(names[number]), (number, number))

    def here() -> set[int]:
        return {number for number, name in enumerate(names) if folder.path(name).exists()}

    for number in range(4):
        put(number)
    assert here() == {1, 2, 3}
    assert cache.get(names[1]) == contents[1]  # this is now the last used file
    put(4)
    assert here() == {1, 3, 4}
    assert cache.get(names[2]) is None


def test_a_file_larger_than_the_bound_is_kept_alone(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "run")
    cache = ModelCache(folder, most_bytes=5)
    for content in (b"1234", b"123456"):
        cache.put(content)
    assert [path.read_bytes() for path in (tmp_path / "blobs").iterdir()] == [b"123456"]


def test_a_copy_that_cannot_be_read_now_is_kept(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "run")
    cache = ModelCache(folder)
    cache.put(b"a model")
    name = hashlib.sha256(b"a model").hexdigest()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        assert cache.get(name) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert folder.path(name).exists()
    assert cache.get(name) == b"a model"


def test_a_damaged_copy_leaves(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, "run")
    cache = ModelCache(folder)
    cache.put(b"a model")
    path = folder.path(hashlib.sha256(b"a model").hexdigest())
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    assert cache.get(path.stem) is None
    assert not path.exists()
