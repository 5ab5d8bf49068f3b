"""A worker goes, in order or not, and another one plays its unfinished games on."""

import numpy as np
import pytest

from tests.integration.selfplay_workers import (
    finished,
    killed,
    live_games,
    make_run,
    make_worker,
    plies,
    query,
    running,
    saved_games,
    stored_games,
    until,
)
from tests.support.random_records import changed, random_record
from zerofleet.database import Database


async def test_sigterm_loses_no_ply_and_another_worker_goes_on(
    database: Database, valkey_url: str
) -> None:
    first = make_worker(make_run(), database, valkey_url, "first")
    async with running(first):
        await until(lambda: plies(first) > 400)
    left = live_games(first)
    assert left
    assert saved_games(database) == left

    second = make_worker(make_run(), database, valkey_url, "second")
    async with running(second):
        await until(lambda: left.keys() <= stored_games(database).keys(), every=0.05)
    games = stored_games(database)
    for uid, actions in left.items():
        assert games[uid][: len(actions)] == actions
    assert not saved_games(database).keys() & stored_games(database).keys()
    assert first.writer.answers["conflict"] == second.writer.answers["conflict"] == 0
    assert len(games) == finished(first) + finished(second)


@pytest.mark.parametrize("save_every", [8, 16])
async def test_a_kill_loses_fewer_plies_of_a_game_than_the_setting(
    database: Database, valkey_url: str, save_every: int
) -> None:
    run = make_run(save_every_plies=save_every, lease_seconds=0.5)
    database.register_run(run)
    rng = np.random.default_rng(save_every)
    most_lost = 0
    for life in range(5):
        worker = make_worker(run, database, valkey_url, f"life {life}", seed=life)
        until_ply = int(rng.integers(200, 600))
        await killed(worker, lambda worker=worker, end=until_ply: plies(worker) > end)
        saved = saved_games(database)
        for uid, actions in live_games(worker).items():
            assert actions[: len(saved.get(uid, []))] == saved.get(uid, [])
            most_lost = max(most_lost, len(actions) - len(saved.get(uid, [])))
    assert 0 < most_lost < save_every

    heir = make_worker(run, database, valkey_url, "heir")
    orphans = saved_games(database)
    async with running(heir):
        await until(lambda: orphans.keys() <= stored_games(database).keys(), every=0.05)
    games = stored_games(database)
    assert all(games[uid][: len(actions)] == actions for uid, actions in orphans.items())


async def test_a_worker_that_was_thought_dead_gives_its_games_up(
    database: Database, valkey_url: str
) -> None:
    """Its leases ran out while it was stopped; the games are the heir's, whatever it still does."""
    run = make_run(save_every_plies=2)
    zombie = make_worker(run, database, valkey_url, "zombie")
    async with running(zombie):
        await until(lambda: len(saved_games(database)) >= 8)
        database._run("UPDATE unfinished_games SET lease_until = now() - interval '1 second'")
        adopted = database.adopt_unfinished(run.name, "heir", 100, 1000.0)
        assert adopted
        await until(lambda: plies(zombie) > 2000)
    uids = {str(record.game_uid) for record, _ in adopted}
    kept = saved_games(database)
    assert uids <= kept.keys()
    for record, _ in adopted:
        assert kept[str(record.game_uid)] == record.columns.action.tolist()
    assert not uids & stored_games(database).keys()
    assert len(stored_games(database)) == zombie.writer.answers["stored"]


async def test_a_worker_plays_on_whatever_lies_among_the_unfinished_games(
    database: Database, valkey_url: str
) -> None:
    """A game that cannot be read or replayed is set aside with a row, and never adopted again."""
    run = make_run("tic_tac_toe")
    database.register_run(run)
    begun = random_record(5, plies=4)
    illegal = changed(random_record(6, plies=4), action=np.int16([4, 4, 0, 1]))
    saved = database.save_unfinished(run.name, "gone", [(begun, 0), (illegal, 3)], 0)
    assert saved == ["saved", "saved"]
    nothing = "00000000-0000-7000-8000-000000000000"
    database._run(
        "INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until) "
        f"VALUES ('{nothing}', '{run.name}', 0, 3, '{{}}', 'gone', now())"
    )
    worker = make_worker(run, database, valkey_url, "heir")
    async with running(worker):
        await until(lambda: str(begun.game_uid) in stored_games(database))
        await until(lambda: worker.writer.answers["stored"] > 20)
    aside = query(database, "SELECT game_uid::text AS uid, reason, worker FROM refused_games")
    assert {(row.uid, row.worker) for row in aside} == {
        (str(illegal.game_uid), "heir"),
        (nothing, "heir"),
    }
    reasons = {row.uid: row.reason for row in aside}
    assert "action 4 at ply 1 is illegal" in reasons[str(illegal.game_uid)]
    assert "this is not a record of a game" in reasons[nothing]
    assert not {str(illegal.game_uid), nothing} & saved_games(database).keys()
