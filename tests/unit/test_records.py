"""Game records: one list of columns, and what is written is read again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import RFC_4122

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zerofleet_core import GameColumns, State

from tests.support.random_records import changed, joined, random_record, resigned_record
from zerofleet.errors import RecordRejectedError
from zerofleet.records import (
    COLUMNS,
    DTYPES,
    GameRecord,
    game_uid_of,
    new_game_uid,
)

FACTS = (
    "result", "reason", "resign_threshold", "plays_on", "next_full_search", "start", "restarted",
)  # fmt: skip
RECORDS = [
    random_record(1),
    random_record(2),
    changed(random_record(3, plies=2), next_full_search=False),
    resigned_record(4, 3),
    changed(random_record(5), resign_threshold=-0.876543, plays_on=True),
    changed(random_record(6, plies=3), root_value=np.float32([-0.0, 1e-42, 1 / 3])),
    random_record(7, start="x1o/1x1/3 o"),
    changed(random_record(8), restarted=True),
]


def test_every_column_of_the_list_is_an_array_of_a_game() -> None:
    columns = RECORDS[0].columns
    for column in COLUMNS:
        array = getattr(columns, column.name)
        assert array.dtype == column.dtype, column.name
        assert column.meaning
        size = columns.plies if column.entry == "ply" else columns.offsets[-1]
        assert array.shape == (size,), column.name
    assert {column.entry for column in COLUMNS} == {"ply", "legal action"}


@pytest.mark.parametrize("record", RECORDS)
def test_json_gives_the_same_record_back(record: GameRecord) -> None:
    back = GameRecord.from_json(json.loads(json.dumps(record.to_json())))
    for field in ("game_uid", "game", "started_at", "finished_at"):
        assert getattr(back, field) == getattr(record, field), field
    for fact in FACTS:
        assert getattr(back.columns, fact) == getattr(record.columns, fact), fact
    for name in DTYPES:
        value, again = getattr(record.columns, name), getattr(back.columns, name)
        assert again.dtype == value.dtype, name
        assert again.tobytes() == value.tobytes(), name
    assert back.digest() == record.digest()


@pytest.mark.parametrize("fact", ["start", "restarted"])
def test_a_record_of_an_earlier_version_lacks_a_fact(fact: str) -> None:
    earlier = {name: value for name, value in RECORDS[0].to_json().items() if name != fact}
    assert GameRecord.from_json(earlier).digest() == RECORDS[0].digest()


def test_a_target_that_is_the_visit_counts_is_not_written_twice() -> None:
    assert random_record(2).to_json()["policy_weights"] is None
    assert random_record(3).to_json()["policy_weights"] is not None


@pytest.mark.parametrize("name", [*DTYPES, *(fact for fact in FACTS if fact != "next_full_search")])
def test_the_digest_is_of_everything(name: str) -> None:
    record = changed(random_record(1, plies=3), resign_threshold=-0.5)
    other: Any = {
        "reason": "resign",
        "resign_threshold": -0.25,
        "plays_on": True,
        "result": 1,
        "start": "x1o/1x1/3 o",
        "restarted": True,
    }
    if name == "offsets":
        value = np.int32([0, 8, 17, 24])
    elif name in DTYPES:
        value = np.roll(getattr(record.columns, name), 1) + np.ones(1, np.bool_)
        value = value.astype(DTYPES[name])
        value[0] = not value[0]
    else:
        value = other[name]
    assert changed(record, **{name: value}).digest() != record.digest()


@pytest.mark.parametrize("name", DTYPES)
def test_columns_that_do_not_fit_make_no_game(name: str) -> None:
    columns = random_record(1).columns
    arrays = {each: getattr(columns, each) for each in DTYPES}
    with pytest.raises(ValueError, match=r"the column \w+ does not fit"):
        GameColumns(**{**arrays, name: arrays[name][1:]})
    wanted = f"the column {name} must be a one-dimensional array of {DTYPES[name]}, not"
    wider = arrays[name].astype(np.float64 if DTYPES[name].kind == "f" else np.int64)
    for array, what in (
        (wider, f"an array of {wider.dtype} with 1 dimension"),
        (arrays[name][None], f"an array of {DTYPES[name]} with 2 dimensions"),
        (arrays[name].tolist(), "<class 'list'>"),
    ):
        with pytest.raises(TypeError, match=f"{wanted} {what}"):
            GameColumns(**{**arrays, name: array})
    with pytest.raises(TypeError, match=f"the column {name} is missing"):
        GameColumns(**{each: array for each, array in arrays.items() if each != name})
    with pytest.raises(TypeError, match="a game has no column child_actions"):
        GameColumns(**arrays, child_actions=arrays["action"])
    every_other = np.repeat(arrays[name], 2)[::2]
    game = GameColumns(**{**arrays, name: every_other})
    assert np.array_equal(getattr(game, name), arrays[name])


def test_a_game_is_joined_from_its_plies() -> None:
    columns = random_record(1).columns
    plies = [
        {
            column.name: getattr(columns, column.name)[ply]
            if column.entry == "ply"
            else getattr(columns, column.name)[columns.offsets[ply] : columns.offsets[ply + 1]]
            for column in COLUMNS
        }
        for ply in range(columns.plies)
    ]
    again = joined(plies, result=columns.result)
    for name in DTYPES:
        assert getattr(again, name).tobytes() == getattr(columns, name).tobytes(), name
    assert joined([], result=None).plies == 0


WHOLE = RECORDS[4].to_json()
BAD: list[Any] = [
    {},
    [],
    None,
    "a record",
    *(
        {key: value for key, value in WHOLE.items() if key != name}
        for name in WHOLE
        if name not in {"start", "restarted"}
    ),
    *(WHOLE | {name: bad} for name in DTYPES for bad in (7, {}, "{1,two}", "{{1,2},{3,4}}", "1")),
    *(WHOLE | {name: "[0:2]={1,2,3}"} for name in DTYPES),
    *(WHOLE | {name: "{1,NULL,3}"} for name in DTYPES if DTYPES[name].kind != "b"),
    WHOLE | {"action": "{0,1,2,3,4,5,6,7,99999}"},
    WHOLE | {"action": "{0,1,2,3,4,5,6,7,8.5}"},
    WHOLE | {"game_uid": "somewhere"},
    WHOLE | {"game_uid": 7},
    WHOLE | {"started_at": "yesterday"},
    WHOLE | {"finished_at": "infinity"},
    WHOLE | {"result": "won"},
    WHOLE | {"reason": None},
    WHOLE | {"start": None},
    WHOLE | {"plays_on": "yes"},
    WHOLE | {"restarted": None},
]


@pytest.mark.parametrize("data", BAD)
def test_what_is_no_record_is_refused(data: Any) -> None:
    with pytest.raises(RecordRejectedError, match="this is not a record of a game"):
        GameRecord.from_json(data)


def test_the_player_to_move_lost_a_resigned_game() -> None:
    assert resigned_record(1, 3).result == 1  # the second player gave up
    assert resigned_record(1, 4).result == -1
    with pytest.raises(ValueError, match="is over after"):
        resigned_record(1, 10)


def test_made_up_records_replay() -> None:
    for record in RECORDS:
        state = State(record.game, record.columns.action.tolist(), record.columns.start)
        assert state.is_terminal == (record.result is not None and record.reason == "rules")


TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))
BITS = st.integers(0, (1 << 74) - 1)


@given(TIMES, BITS)
def test_a_games_uid_is_a_uuid_of_version_7_with_its_time_and_all_random_bits(
    began_at: datetime, bits: int
) -> None:
    uid = game_uid_of(began_at, bits)
    assert (uid.version, uid.variant) == (7, RFC_4122)
    milliseconds = timedelta(milliseconds=uid.int >> 80)
    assert timedelta(0) <= began_at - datetime(1970, 1, 1, tzinfo=UTC) - milliseconds
    assert began_at - datetime(1970, 1, 1, tzinfo=UTC) - milliseconds < timedelta(milliseconds=1)
    assert (uid.int >> 64 & 0xFFF) << 62 | uid.int & (1 << 62) - 1 == bits


@given(TIMES, TIMES, BITS, BITS)
def test_games_that_begin_later_have_greater_uids(
    one: datetime, other: datetime, bits: int, other_bits: int
) -> None:
    earlier, later = sorted((one, other))
    if later - earlier >= timedelta(milliseconds=1):
        assert game_uid_of(earlier, bits) < game_uid_of(later, other_bits)


@given(TIMES, BITS, BITS)
def test_uids_of_one_moment_differ_in_their_random_bits(
    began_at: datetime, bits: int, other_bits: int
) -> None:
    assert (game_uid_of(began_at, bits) == game_uid_of(began_at, other_bits)) == (
        bits == other_bits
    )


def test_ten_thousand_games_that_begin_together_have_as_many_uids() -> None:
    began_at = datetime(2026, 1, 1, tzinfo=UTC)
    assert len({new_game_uid(began_at) for _ in range(10_000)}) == 10_000


def test_a_time_before_1970_is_no_uids() -> None:
    with pytest.raises(ValueError, match=r"1969-12-31 .* has no UUIDv7"):
        game_uid_of(datetime(1969, 12, 31, tzinfo=UTC), 0)
