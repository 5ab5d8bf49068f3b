"""The in_play: a game keeps its uid, start and epoch from its first ply to its record."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from zerofleet_core import GameColumns, SearchConfig, SelfPlay

from zerofleet.records import GameRecord
from zerofleet.services.selfplay.game_storage import GamesInPlay

GAME = "tic_tac_toe"
BEGUN = datetime(2030, 1, 1, tzinfo=UTC)
SEARCH = SearchConfig(num_simulations=8, cache_positions=0)


def step(engine: SelfPlay) -> None:
    rows = len(engine.select())
    engine.backup(np.zeros((rows, 9), np.float32), np.zeros(rows, np.float32), 3)


@pytest.fixture
def clock() -> Iterator[datetime]:
    def ticks() -> Iterator[datetime]:
        now = BEGUN
        while True:
            yield now
            now += timedelta(seconds=1)

    return ticks()


def finish_games(
    engine: SelfPlay, in_play: GamesInPlay, clock: Iterator[datetime], count: int
) -> list[tuple[GameRecord, int]]:
    finished: list[tuple[GameRecord, int]] = []
    while len(finished) < count:
        now = next(clock)
        engine.select()
        in_play.begin(engine.take_begun(), now)
        for game in engine.take_finished():
            record = in_play.finish(game, now)
            if record is not None:
                finished.append(record)
        step(engine)
    return finished


def one_unfinished(engine: SelfPlay, plies: int) -> GameColumns:
    while True:
        step(engine)
        for game in engine.unfinished():
            if game.plies == plies:
                return game


def test_every_game_has_its_own_uid_and_began_before_it_ended(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 4, SEARCH, 1), GamesInPlay(GAME)
    records = [record for record, _ in finish_games(engine, in_play, clock, 40)]
    assert len({record.game_uid for record in records}) == len(records)
    for record in records:
        assert record.finished_at is not None
        assert record.finished_at - record.started_at >= timedelta(seconds=8)
        assert record.result is not None


def test_an_unfinished_game_keeps_its_uid(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    game = one_unfinished(engine, 3)
    before, epoch = in_play.unfinished(game)
    assert (epoch, before.length, before.started_at) == (0, 3, BEGUN)
    assert before.finished_at is None
    [(after, _)] = finish_games(engine, in_play, clock, 1)
    assert after.game_uid == before.game_uid
    assert list(after.columns.action[:3]) == list(before.columns.action)


def test_an_adopted_game_keeps_uid_start_and_new_epoch(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    record, _ = in_play.unfinished(one_unfinished(engine, 4))

    heir, heirs = SelfPlay(GAME, 2, SEARCH, 2), GamesInPlay(GAME)
    heirs.adopt(heir.adopt(record.columns), record, 7)
    assert heirs.adopted == 1
    finished = finish_games(heir, heirs, clock, 20)
    assert heirs.adopted == 0
    [(ended, epoch)] = [each for each in finished if each[0].game_uid == record.game_uid]
    assert epoch == 7
    assert ended.started_at == record.started_at
    assert list(ended.columns.action[:4]) == list(record.columns.action)
    assert list(ended.columns.visit_counts[: record.columns.offsets[-1]]) == list(
        record.columns.visit_counts
    )
    assert {epoch for each, epoch in finished if each is not ended} == {0}


def test_an_adopted_game_may_be_resigned_as_it_might_before(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.set_resignation(-0.9, 1.0)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    record, _ = in_play.unfinished(one_unfinished(engine, 2))
    assert (record.columns.resign_threshold, record.columns.plays_on) == (pytest.approx(-0.9), True)

    heir, heirs = SelfPlay(GAME, 1, SEARCH, 2), GamesInPlay(GAME)
    heir.set_resignation(-0.5, 0.0)
    heirs.adopt(heir.adopt(record.columns), record, 1)
    finished = [record for record, _ in finish_games(heir, heirs, clock, 3)]
    [ended] = [each for each in finished if each.game_uid == record.game_uid]
    assert (ended.columns.resign_threshold, ended.columns.plays_on) == (
        record.columns.resign_threshold,
        True,
    )
    before = record.columns.best_child_value.tolist()
    assert ended.columns.best_child_value[:2].tolist() == before
    assert {
        (each.columns.resign_threshold, each.columns.plays_on)
        for each in finished
        if each is not ended
    } == {(-0.5, False)}


def test_a_resigned_game_is_a_record(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 2, SEARCH, 1), GamesInPlay(GAME)
    engine.set_resignation(0.5, 0.0)  # every value is below it
    for record, _ in finish_games(engine, in_play, clock, 6):
        assert (record.reason, record.length, record.result) == ("resign", 1, 1)
        assert record.columns.policy_weights.shape == record.columns.visit_counts.shape
        assert GameRecord.from_json(record.to_json()).digest() == record.digest()


def test_plies_are_unsaved_until_saved_and_never_again() -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    early = one_unfinished(engine, 2)
    late = one_unfinished(engine, 4)
    assert in_play.unsaved_plies(late) == 4
    in_play.saved(late)
    in_play.saved(early)  # an answer that comes late takes nothing back
    assert in_play.unsaved_plies(late) == 0
    assert in_play.unsaved_plies(one_unfinished(engine, 5)) == 1


def test_a_disowned_game_gives_no_record(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    game = one_unfinished(engine, 2)
    lost, _ = in_play.unfinished(game)
    assert in_play.held == [lost.game_uid]
    assert in_play.disown(game.game_id, 0)
    assert in_play.held == []
    assert in_play.unsaved_plies(game) == 0
    records = finish_games(engine, in_play, clock, 3)
    assert lost.game_uid not in {record.game_uid for record, _ in records}


def test_a_refusal_of_an_old_epoch_disowns_nothing() -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    engine.select()
    in_play.begin(engine.take_begun(), BEGUN)
    game = one_unfinished(engine, 2)
    record, sent = in_play.unfinished(game)
    assert in_play.renew(record.game_uid, sent + 1)  # while a save is on its way
    assert not in_play.disown(game.game_id, sent)
    assert in_play.held == [record.game_uid]
    assert in_play.unsaved_plies(game) == 2


def test_games_that_begin_and_end_within_one_select_are_counted(clock: Iterator[datetime]) -> None:
    """With everything cached a slot may play several games in one call."""
    search = SearchConfig(
        num_simulations=2, dirichlet_fraction=0.0, temperature=0.0, random_symmetry=False
    )
    engine, in_play = SelfPlay(GAME, 2, search, 1), GamesInPlay(GAME)
    records = [record for record, _ in finish_games(engine, in_play, clock, 200)]
    assert len({record.game_uid for record in records}) == len(records)


def test_the_record_is_the_same_bytes_each_time(clock: Iterator[datetime]) -> None:
    engine, in_play = SelfPlay(GAME, 1, SEARCH, 1), GamesInPlay(GAME)
    [(record, _)] = finish_games(engine, in_play, clock, 1)
    assert GameRecord.from_json(record.to_json()).digest() == record.digest()


def test_uids_say_when_a_game_began_by_postgres_clock() -> None:
    in_play = GamesInPlay(GAME)
    in_play.clock_ahead = timedelta(days=3)
    in_play.begin([0], datetime(2026, 5, 4, tzinfo=UTC))
    [uid] = in_play.held
    assert uid.int >> 80 == datetime(2026, 5, 1, tzinfo=UTC).timestamp() * 1000
