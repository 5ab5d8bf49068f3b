"""Games in play go from worker to worker, and only the newest owner's writes count."""

import numpy as np

from tests.support.random_records import changed, random_record
from zerofleet.database import Database, Submission
from zerofleet.records import GameRecord


def begun(seed: int) -> GameRecord:
    return random_record(seed, plies=3)


def test_a_silent_workers_games_are_adopted_with_a_new_epoch(database: Database) -> None:
    records = [begun(seed) for seed in range(3)]
    assert database.save_unfinished("test", "a", [(r, 0) for r in records], 60) == ["saved"] * 3
    assert database.adopt_unfinished("test", "b", 10, 60) == []

    assert database.release_unfinished("test", "a") == 3
    [(first, epoch)] = database.adopt_unfinished("test", "b", 1, 60)
    assert epoch == 1
    original = next(record for record in records if record.game_uid == first.game_uid)
    assert first.digest() == original.digest()
    assert (first.started_at, first.finished_at) == (original.started_at, None)
    assert len(database.adopt_unfinished("test", "c", 10, 60)) == 2
    assert database.adopt_unfinished("test", "d", 10, 60) == []


def test_the_former_owner_is_refused(database: Database) -> None:
    record = begun(1)
    database.save_unfinished("test", "a", [(record, 0)], 0)
    [(_, epoch)] = database.adopt_unfinished("test", "b", 1, 60)

    assert database.save_unfinished("test", "a", [(record, 0)], 60) == ["lost"]
    finished = random_record(1)
    assert database.submit_games("test", "a", [Submission(finished, epoch=0)]) == ["adopted"]
    assert database.count_games("test") == 0
    assert database.save_unfinished("test", "b", [(record, epoch)], 60) == ["saved"]
    assert database.submit_games("test", "b", [Submission(finished, epoch)]) == ["stored"]
    assert database.summary("test").unfinished_games == 0
    # The late delivery of the same game is what it is: there already.
    assert database.submit_games("test", "a", [Submission(finished, epoch=0)]) == ["duplicate"]
    # And so is one that went another way after it was adopted, and is no sign of bad memory.
    other = changed(finished, result=-finished.result or 1)
    assert database.submit_games("test", "a", [Submission(other, epoch=0)]) == ["adopted"]
    assert database.submit_games("test", "b", [Submission(other, epoch)]) == ["conflict"]


def test_a_finished_game_cannot_be_saved_or_adopted_again(database: Database) -> None:
    finished = random_record(1)
    database.submit_games("test", "a", [Submission(finished)])
    assert database.save_unfinished("test", "a", [(begun(1), 0)], 0) == ["lost"]
    assert database.adopt_unfinished("test", "b", 10, 60) == []

    # A save that began before the game was stored and was committed after it leaves a row.
    database._run(
        "INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until) "
        f"VALUES ('{finished.game_uid}', 'test', 0, 3, '{{}}', 'a', now())"
    )
    assert database.adopt_unfinished("test", "b", 10, 60) == []
    assert database.summary("test").unfinished_games == 0


def test_leases_are_extended_for_their_holder_alone(database: Database) -> None:
    database.save_unfinished("test", "a", [(begun(1), 0)], 0)
    database.save_unfinished("test", "b", [(begun(2), 0)], 0)
    uids = [begun(1).game_uid, begun(2).game_uid]
    assert database.extend_leases("test", "a", uids, 60) == 1
    [(record, _)] = database.adopt_unfinished("test", "c", 10, 60)
    assert record.game_uid == begun(2).game_uid


def test_only_the_games_that_are_named_are_extended(database: Database) -> None:
    database.save_unfinished("test", "a", [(begun(1), 0), (begun(2), 0)], 0)
    assert database.extend_leases("test", "a", [], 60) == 0
    assert database.extend_leases("test", "a", [begun(1).game_uid], 60) == 1
    [(record, _)] = database.adopt_unfinished("test", "c", 10, 60)
    assert record.game_uid == begun(2).game_uid


def test_a_later_save_replaces_the_earlier(database: Database) -> None:
    database.save_unfinished("test", "a", [(begun(1), 0)], 60)
    later = random_record(1, plies=5)
    assert database.save_unfinished("test", "a", [(later, 0)], 0) == ["saved"]
    [(record, _)] = database.adopt_unfinished("test", "b", 1, 60)
    assert record.length == 5


def test_who_may_resign_goes_from_worker_to_worker(database: Database) -> None:
    record = changed(begun(3), resign_threshold=-0.8765432, plays_on=True)
    database.save_unfinished("test", "a", [(record, 0)], 0)
    [(back, _)] = database.adopt_unfinished("test", "b", 1, 60)
    assert (back.columns.resign_threshold, back.columns.plays_on) == (
        record.columns.resign_threshold,
        True,
    )
    assert back.digest() == record.digest()


def test_a_restarted_game_stays_one_with_another_worker(database: Database) -> None:
    record = changed(begun(3), restarted=True)
    database.save_unfinished("test", "a", [(record, 0)], 0)
    [(back, _)] = database.adopt_unfinished("test", "b", 1, 60)
    assert back.columns.restarted
    assert back.digest() == record.digest()


def test_a_record_comes_back_bit_for_bit(database: Database) -> None:
    record = begun(1)
    record = changed(record, root_value=np.float32([-0.0, 1e-42, 1 / 3]))
    database.save_unfinished("test", "a", [(record, 0)], 0)
    [(back, _)] = database.adopt_unfinished("test", "b", 1, 60)
    assert back.columns.root_value.tobytes() == record.columns.root_value.tobytes()
