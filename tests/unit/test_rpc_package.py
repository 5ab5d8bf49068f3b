"""The names of ``zerofleet.rpc``: imported late, and all of them there."""

from zerofleet import rpc


def test_every_name_is_there_and_no_other() -> None:
    assert sorted(rpc._HOMES) == sorted(rpc.__all__)
    for name in rpc.__all__:
        assert getattr(rpc, name) is not None
    assert not hasattr(rpc, "nothing")
