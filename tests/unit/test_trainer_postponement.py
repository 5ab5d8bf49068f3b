"""When a publication is tried again."""

from services.trainer.postponement import FIRST_SECONDS, LONGEST_SECONDS, Postponement
from zerofleet.errors import StoreUnavailableError

AWAY = StoreUnavailableError("the bucket is away")


def test_it_waits_longer_each_time_and_starts_anew_after_a_success() -> None:
    now = 0.0
    postponed = Postponement(lambda: now)
    assert postponed.over
    assert postponed.reason == ""
    pauses = []
    for _ in range(8):
        postponed.again(AWAY)
        begin = now
        while not postponed.over:
            now += 0.5
        pauses.append(now - begin)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (pauses[0], pauses[-1]) == (FIRST_SECONDS, LONGEST_SECONDS)
    assert postponed.reason == "the store of models: the bucket is away"
    postponed.end()
    assert postponed.over
    assert postponed.reason == ""
    postponed.again(AWAY)
    now += FIRST_SECONDS
    assert postponed.over
