"""The data folder: its owner, and that only one process runs stores in it."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from zerofleet.cli import app
from zerofleet.cli.page import _other_folders
from zerofleet.cli.run_options import chosen_folder
from zerofleet.cli.serving import tell_of_damage
from zerofleet.cli.up import with_disk_limit
from zerofleet.config import ProcessSettings, RunConfig, find_run_file, load_run
from zerofleet.config.presets import merge
from zerofleet.database import Promotion
from zerofleet.errors import ConfigError
from zerofleet.fleet.disk import FolderSizes, data_folder_of, full_disk
from zerofleet.local.data_folder import DataFolder, FolderLock, lock_holder
from zerofleet.local.programs import LocalPrograms
from zerofleet.local.start import Start
from zerofleet.local.stores import Running, StoreUrls
from zerofleet.local.valkey import EmbeddedValkey
from zerofleet.models.folder import ModelFolder

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"


@pytest.fixture
def run() -> RunConfig:
    return load_run(RUN_FILE)


def test_a_new_folder_gets_its_marker(tmp_path: Path, run: RunConfig) -> None:
    folder = DataFolder.for_run(tmp_path / "a" / "b", run)
    marker = json.loads((folder.root / "zerofleet.json").read_text())
    assert marker == {"format": 1, "run": "tictactoe", "game": "tic_tac_toe"}
    assert DataFolder.open(folder.root) == DataFolder.for_run(folder.root, run) == folder


def test_the_run_file_is_kept(tmp_path: Path, run: RunConfig) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.keep_run_file(RUN_FILE, run)
    folder.keep_run_file(folder.run_file, run)
    assert folder.run_file.read_text() == f"format = 2\n{RUN_FILE.read_text()}"


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        (
            "seed=7,search.num_simulations=9",
            {"seed": 7, "search": {"num_simulations": 9}},
        ),
        (
            'game.name=go(size=5,komi=7), rating.anchors=["random"]',
            {"game": {"name": "go(size=5,komi=7)"}, "rating": {"anchors": ["random"]}},
        ),
        (
            'game=go(size=5),resign={"enabled": false}',
            {"game": {"name": "go(size=5)"}, "resign": {"enabled": False}},
        ),
        (
            "preset=plain,network.blocks=2",
            {"preset": "plain", "network": {"blocks": 2}},
        ),
        (
            'goal=null,selfplay={"dirichlet_alpha": null}',
            {"goal": None},
        ),
        ("", {}),
    ],
)
def test_what_is_set_for_a_start_is_in_the_run_file_that_is_kept(
    settings: str,
    written: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = RUN_FILE.read_text()
    with monkeypatch.context() as environment:
        environment.setenv("ZEROFLEET_SET", settings)
        environment.setenv("ZEROFLEET_DATABASE_URL", "postgresql://elsewhere")
        chosen = load_run(RUN_FILE)
        folder = DataFolder.for_run(tmp_path / "data", chosen)
        folder.keep_run_file(RUN_FILE, chosen)
    assert load_run(folder.run_file) == chosen
    copy = tomllib.loads(folder.run_file.read_text())
    expected = merge(tomllib.loads(own), {"format": 2, **written})
    assert copy == {key: value for key, value in expected.items() if value is not None}
    remarks = {line for line in own.splitlines() if line.startswith("#")}
    assert remarks <= set(folder.run_file.read_text().splitlines())


def test_the_variable_changes_no_run_that_was_started(
    tmp_path: Path, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start writes its keys into the folder; later commands and their services read them."""
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.keep_run_file(RUN_FILE, run)
    monkeypatch.setenv("ZEROFLEET_SET", "name=another,search.c_puct=9")
    assert folder.read_run() == run
    programs = LocalPrograms(folder, StoreUrls(defaultdict(str), ""), "127.0.0.1:1")
    for program in (programs.inference(), programs.trials(), *programs.loop(1)):
        for name, value in program.environment.items():
            monkeypatch.setenv(name, value)
        assert load_run(folder.run_file) == run
        monkeypatch.setenv("ZEROFLEET_SET", "name=another")


def test_a_match_lets_its_own_evaluator_start_the_programs_that_were_typed(
    tmp_path: Path, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.keep_run_file(RUN_FILE, run)
    monkeypatch.setenv("ZEROFLEET_ENGINES", "gnugo --mode gtp")
    programs = LocalPrograms(folder, StoreUrls(defaultdict(str), ""), "127.0.0.1:1")
    environment = programs.trials(["stockfish"]).environment
    settings = ProcessSettings(run_file=RUN_FILE, engines=environment["ZEROFLEET_ENGINES"])
    assert settings.allowed_engines == {"gnugo --mode gtp", "stockfish"}
    assert all("ZEROFLEET_ENGINES" not in each.environment for each in programs.loop(1))


@pytest.mark.parametrize(("in_file", "limit"), [(None, 20.0), ("7.5", 7.5), ("0", 0.0)])
def test_the_disk_limit_is_in_the_run_file_that_is_kept(
    in_file: str | None, limit: float, tmp_path: Path
) -> None:
    run_file = tmp_path / "run.toml"
    section = "" if in_file is None else f"[retention]\nmax_disk_gb = {in_file}  # mine\n"
    run_file.write_text(f"{RUN_FILE.read_text()}\n{section}")
    run = with_disk_limit(load_run(run_file))
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.keep_run_file(run_file, run)
    copy = load_run(folder.run_file)
    assert copy == run
    assert copy.retention.max_disk_gb == limit
    assert copy.retention.limit_bytes == (limit * 1e9 or None)
    text = f"format = 2\n{run_file.read_text()}"
    assert in_file is None or folder.run_file.read_text() == text


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_files_of_a_data_folder_are_counted_once(tmp_path: Path, *, is_elsewhere: bool) -> None:
    root = tmp_path / "data"
    cluster = root / "postgres" / "cluster"
    if is_elsewhere:  # as under root, where Postgres' user may not enter the data folder
        (tmp_path / "shared").mkdir()
        cluster.parent.mkdir(parents=True)
        cluster.symlink_to(tmp_path / "shared")
    write(cluster / "pg_wal" / "1", 1_000)
    write(cluster / "base" / "1", 20_000)
    write(cluster / "global" / "1", 300)
    write(root / "models" / "blobs" / "a.onnx", 4_000)
    (root / "models" / "r" / "1").mkdir(parents=True)
    (root / "models" / "r" / "1" / "model.onnx").hardlink_to(root / "models" / "blobs" / "a.onnx")
    write(root / "checkpoints" / "r" / "1", 50_000)
    write(root / "logs" / "trainer.log", 600)
    write(root / "run.toml", 7)
    sizes = FolderSizes.of(root, 20_000)
    assert sizes == FolderSizes(log=1_000, models=4_000, checkpoints=50_000, logs=600, other=307)
    assert sizes.total == 55_907


def test_of_a_data_folder_without_a_database_all_files_count(tmp_path: Path) -> None:
    write(tmp_path / "models" / "blobs" / "a.onnx", 4_000)
    write(tmp_path / "run.toml", 7)
    assert FolderSizes.of(tmp_path, 10**9).total == 4_007


def test_only_the_run_file_of_a_data_folder_names_one(tmp_path: Path, run: RunConfig) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    assert data_folder_of(folder.run_file) == folder.root
    assert data_folder_of(RUN_FILE) is None


def test_a_best_model_whose_file_is_damaged_is_named(
    tmp_path: Path, run: RunConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    sha256 = hashlib.sha256(b"a model").hexdigest()
    path = ModelFolder(folder.models, folder.run).path(sha256)
    path.parent.mkdir(parents=True)
    for content, word in ((b"a model", ""), (b"a mod", f"{path} is damaged"), (None, "no model")):
        path.unlink() if content is None else path.write_bytes(content)
        tell_of_damage(folder, Promotion(2, 7, sha256))
        message = capsys.readouterr().err
        assert word in message
        assert ("the best model, 7, cannot be used" in message) == bool(word)


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ('{"format": 2, "run": "tictactoe", "game": "tic_tac_toe"}', "a newer zerofleet"),
        ('{"format": 1, "run": "other", "game": "tic_tac_toe"}', "belongs to the run 'other'"),
        ('{"format": 1, "run": "tictactoe", "game": "go"}', "of go, not to"),
        ('{"run": "tictactoe"}', "names no format"),
        ("[1]", "cannot read"),
        ("{", "cannot read"),
    ],
)
def test_foreign_folders_are_refused(
    tmp_path: Path, run: RunConfig, marker: str, complaint: str
) -> None:
    (tmp_path / "zerofleet.json").write_text(marker)
    with pytest.raises(ConfigError, match=complaint) as refusal:
        DataFolder.for_run(tmp_path, run)
    assert "\n" not in str(refusal.value)


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path, run: RunConfig) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is not empty and not a data folder"):
        DataFolder.for_run(tmp_path, run)
    with pytest.raises(ConfigError, match="is not a data folder"):
        DataFolder.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot make the data folder"):
        DataFolder.for_run(tmp_path / "file" / "below", run)


def test_only_one_holds_a_folder(tmp_path: Path, run: RunConfig) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    assert not folder.is_held()
    code = f"""
from pathlib import Path
from zerofleet.local.data_folder import DataFolder
with DataFolder.open(Path({str(folder.root)!r})).hold("up"):
    print("held", flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert folder.is_held()
        assert folder.holder_pid() == holder.pid
        with pytest.raises(ConfigError, match=r"in use by `zerofleet up` \(process \d+"):
            folder.hold("sql").__enter__()
        holder.kill()
    with folder.hold("sql"):
        assert folder.is_held()
    assert not folder.is_held()


def test_the_folder_used_last_is_meant(
    tmp_path: Path,
    run: RunConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="no data folder under zerofleet-data/"):
        chosen_folder(None)
    for number, name in enumerate(("old", "new", "older")):
        folder = DataFolder.for_run(Path("zerofleet-data") / name, run)
        with folder.hold("up"):
            pass

        os.utime(folder.root / "lock", (number % 2, number % 2))
    assert chosen_folder(None).root.name == "new"
    assert (
        "zerofleet-data/new, the most recent of 3 runs; choose with --data"
        in capsys.readouterr().err
    )
    assert chosen_folder(Path("zerofleet-data/old")).root.name == "old"
    with pytest.raises(ConfigError, match="zerofleet-data/tictactoe is not a data folder"):
        chosen_folder(None, RUN_FILE)


def test_the_name_of_a_run_means_its_data_folder(
    tmp_path: Path, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    DataFolder.for_run(Path("zerofleet-data/mine"), run)  # no run file has this name
    assert chosen_folder(None, Path("mine")).root.name == "mine"
    with pytest.raises(ConfigError, match=r"no trained model 'other'.*; runs in .*: mine"):
        chosen_folder(None, Path("other"))


def test_other_runs_of_the_page_are_of_the_same_game_and_have_their_own_labels(
    tmp_path: Path, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def made(name: str, of: Path) -> DataFolder:
        copy = load_run(of)
        folder = DataFolder.for_run(Path("zerofleet-data") / name, copy)
        folder.keep_run_file(of, copy)
        return folder

    own = made("tictactoe", RUN_FILE)
    again = made("again, with more", RUN_FILE)
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\ngame = "tic_tac_toe"\n')
    named = made("mine", mine)
    found = _other_folders(own, [again.root, Path("mine")])
    assert found == {"tictactoe (again with more)": again, "mine": named}
    assert _other_folders(own, [mine]) == {"mine": named}
    with pytest.raises(ConfigError, match="is named twice"):
        _other_folders(own, [Path("mine"), mine])
    with pytest.raises(ConfigError, match="is named twice"):
        _other_folders(own, [own.root])
    made("four", RUN_FILE.with_name("connect_four.toml"))
    with pytest.raises(ConfigError, match="compare runs of the same game"):
        _other_folders(own, [Path("four")])
    with pytest.raises(ConfigError, match="no trained model 'nobody'"):
        _other_folders(own, [Path("nobody")])


def test_a_run_file_and_a_folder_must_mean_the_same_run(
    tmp_path: Path, run: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tictactoe").mkdir()  # a folder is no run file, so zerofleet's own run file is used
    assert find_run_file(Path("tictactoe")) != Path("tictactoe")
    for root in ("zerofleet-data/tictactoe", "elsewhere"):
        DataFolder.for_run(Path(root), run)
    assert chosen_folder(None, RUN_FILE).root.name == "tictactoe"
    assert chosen_folder(Path("elsewhere"), RUN_FILE).root.name == "elsewhere"
    with pytest.raises(ConfigError, match=r"belongs to the run 'tictactoe', and .* is of 'go9'"):
        chosen_folder(Path("elsewhere"), RUN_FILE.with_name("go9.toml"))


@pytest.mark.parametrize(
    "command", ["status", "sql", "play", "gtp", "sgf", "exam", "match", "rollback"]
)
def test_every_command_that_asks_a_run_is_told_which_alike(command: str) -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    named = {parameter.name: parameter for parameter in group.commands[command].params}
    assert isinstance(named["run_file"], TyperArgument)
    assert not named["run_file"].required
    assert named["data"].opts == ["--data"]


@pytest.fixture
def full_folder(tmp_path: Path, run: RunConfig) -> Iterator[DataFolder]:
    """A data folder on a full disk of its own."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mounted)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("needs to mount a file system (run the tests as root)")
    try:
        folder = DataFolder.for_run(mounted / "data", run)
        with folder.hold("up"):
            pass
        with pytest.raises(OSError, match="No space left"):
            (mounted / "filler").write_bytes(bytes(1 << 17))
        yield folder
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_full_disk_is_named_with_its_folder(
    full_folder: DataFolder, run: RunConfig, tmp_path: Path
) -> None:
    root = full_folder.root
    assert f"full: 0.0 MB left on the disk of {root}" in str(full_disk(root))
    assert full_disk(tmp_path) is None
    with full_folder.hold("sql"):  # the lock takes no space
        assert full_folder.holder_pid() == os.getpid()
        with pytest.raises(ConfigError, match=f"the disk of {root} is full: make room there"):
            Running(os.getpid(), {}, "").announced(full_folder).__enter__()
    with pytest.raises(ConfigError, match=f"the disk of {root / 'new'} is full"):
        DataFolder.for_run(root / "new", run)
    with pytest.raises(ConfigError, match=f"the disk of {root / 'valkey'} is full"):
        EmbeddedValkey(root / "valkey").start()
    (root.parent / "filler").unlink()
    DataFolder.for_run(root / "new", run)  # the failed write left nothing behind that blocks this


def test_a_run_file_that_cannot_be_copied_is_named(tmp_path: Path, run: RunConfig) -> None:
    """The path is a pipe, as from a shell's <(...)."""
    folder = DataFolder.for_run(tmp_path / "data", run)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match=f"cannot copy {pipe}: give a run file that is a plain"):
        folder.keep_run_file(pipe, run)


def copy_of(run_file: Path) -> bytes:
    """Return the content of a data folder's copy of the run file."""
    return b"format = 2\n" + run_file.read_bytes()


def everything_in(folder: Path) -> dict[str, bytes]:
    """Return the content of each file except the lock, by path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def fail(
    root: Path,
    run: RunConfig,
    run_file: Path,
    change: Callable[[Start], None] | None = None,
    error: type[BaseException] = ConfigError,
) -> None:
    """Fail to start after this change."""

    def start_and_fail() -> None:
        with Start(root, run, run_file) as start:
            start.write(run) if change is None else change(start)
            raise error("no")

    with pytest.raises(error, match="no"):
        start_and_fail()


def test_a_new_folder_whose_start_fails_is_removed(tmp_path: Path, run: RunConfig) -> None:
    root = tmp_path / "a" / "b"

    def change(start: Start) -> None:
        start.write(run)
        (root / "checkpoints").mkdir()
        (root / "checkpoints" / "first").touch()
        (root / "link").symlink_to(tmp_path)

    for error in (ConfigError, KeyboardInterrupt):
        fail(root, run, RUN_FILE, change, error)
        assert not (tmp_path / "a").exists()
    root.mkdir(parents=True)  # an empty folder that existed before stays
    fail(root, run, RUN_FILE)
    assert list((tmp_path / "a").rglob("*")) == [root]


def test_the_logs_of_a_first_start_that_failed_are_kept(tmp_path: Path, run: RunConfig) -> None:
    root = tmp_path / "data"

    def change(start: Start) -> None:
        start.folder.logs.mkdir(exist_ok=True)
        (start.folder.logs / "trainer.log").write_text("why")

    for _ in range(2):  # the first failure does not block the second attempt
        fail(root, run, RUN_FILE, change)
        assert everything_in(root) == {"logs/trainer.log": b"why"}


def test_a_start_that_fails_changes_nothing_in_an_old_folder(
    tmp_path: Path, run: RunConfig
) -> None:
    root = tmp_path / "data"
    stores = root / "stores.json"
    new = tmp_path / "new.toml"
    new.write_text(RUN_FILE.read_text() + "\n# new\n")

    def change(start: Start) -> None:
        start.write(run)
        stores.write_text("new")

    with Start(root, run, RUN_FILE) as start:
        start.write(run)
        start.succeeded()
    without_stores = everything_in(root)
    fail(root, run, new, change)
    assert everything_in(root) == without_stores
    stores.write_text("old")
    fail(root, run, new, change)
    assert everything_in(root) == {**without_stores, "stores.json": b"old"}
    with Start(root, run, new) as start:
        change(start)
        start.succeeded()
    assert everything_in(root) == {
        **without_stores,
        "run.toml": copy_of(new),
        "stores.json": b"new",
    }


def kill_in_start(root: Path, new: Path, then: str) -> None:
    """Start as ``zerofleet up`` does, in a process that SIGKILL ends."""
    code = f"""
import os, signal
from pathlib import Path
from zerofleet.config import load_run
from zerofleet.local.start import Start
root, new = Path({str(root)!r}), Path({str(new)!r})
run = load_run(new)
with Start(root, run, new) as start:
    start.write(run)
    (root / "stores.json").write_text('{{"redis_url": "new"}}')
    {then}
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A run file that differs from the last start's."""
    path = tmp_path / "new.toml"
    path.write_text(RUN_FILE.read_text() + "\n# new\n")
    return path


@pytest.mark.parametrize("by", ["command", "start", "failing start"])
def test_a_start_that_is_killed_is_undone(
    tmp_path: Path, run: RunConfig, changed: Path, by: str
) -> None:
    root = tmp_path / "data"
    with Start(root, run, RUN_FILE) as start:
        start.write(run)
        (root / "stores.json").write_text('{"redis_url": "old"}')
        start.succeeded()
    before = everything_in(root)
    kill_in_start(root, changed, "")
    assert everything_in(root) != before
    match by:
        case "command":
            assert everything_in(chosen_folder(root).root) == before
        case "start":
            with Start(root, run, root / "run.toml"):
                assert everything_in(root) == before
        case _:
            fail(root, run, changed)
    assert everything_in(root) == before


def test_a_run_that_is_killed_after_its_start_keeps_its_files(
    tmp_path: Path, run: RunConfig, changed: Path
) -> None:
    root = tmp_path / "data"
    with Start(root, run, RUN_FILE) as start:
        start.write(run)
        start.succeeded()
    kill_in_start(root, changed, "start.succeeded()")
    after = everything_in(root)
    assert after["run.toml"] == copy_of(changed)
    with pytest.raises(ConfigError, match="no"), Start(root, run, RUN_FILE):
        raise ConfigError("no")  # before anything was written
    assert everything_in(root) == after
    assert everything_in(chosen_folder(root).root) == after


def test_a_start_that_goes_on_is_not_undone(tmp_path: Path, run: RunConfig, changed: Path) -> None:
    root = tmp_path / "data"
    with Start(root, run, RUN_FILE) as start:
        start.write(run)
        start.succeeded()
    with Start(root, run, changed) as start:
        start.write(run)
        chosen_folder(root)
        assert (root / "run.toml").read_bytes() == copy_of(changed)
        start.succeeded()


def test_a_start_that_is_refused_removes_nothing(tmp_path: Path, run: RunConfig) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is not empty"):
        Start(tmp_path, run, RUN_FILE).__enter__()
    root = tmp_path / "data"
    folder = DataFolder.for_run(root, run)
    before = everything_in(tmp_path)
    with folder.hold("up"), pytest.raises(ConfigError, match="in use"):
        Start(root, run, RUN_FILE).__enter__()
    with pytest.raises(ConfigError, match=f"cannot copy {tmp_path}: give a run file that is"):
        Start(root, run, tmp_path).__enter__()
    assert everything_in(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root (run the tests as root)")
def test_a_folder_of_another_user_is_named(tmp_path: Path, run: RunConfig) -> None:
    """Root copied the folder, for example."""
    with tempfile.TemporaryDirectory() as anybodys:
        root = Path(anybodys) / "data"
        Path(anybodys).chmod(0o777)
        with Start(root, run, RUN_FILE) as start:
            start.write(run)
            start.folder.logs.mkdir()
            (start.folder.logs / "trainer.log").touch()
            start.succeeded()
        run_file = Path(anybodys) / "run.toml"
        run_file.write_bytes(RUN_FILE.read_bytes())
        os.seteuid(65534)
        try:
            with pytest.raises(
                ConfigError, match="belongs to user ID 0, and this is user ID 65534"
            ):
                Start(root, run, run_file).__enter__()
            os.seteuid(0)
            for path in (root, root / "lock", root / "run.toml", root / "zerofleet.json"):
                os.chown(path, 65534, 65534)
            os.seteuid(65534)
            with pytest.raises(ConfigError, match=r"logs belongs to user ID 0 .*chown -R 65534"):
                Start(root, run, run_file).__enter__()
        finally:
            os.seteuid(0)


def modes(folder: DataFolder) -> dict[str, int]:
    """Return the modes of the folder and its entries, without the entries of folders below."""
    paths = (folder.root, *folder.root.iterdir())
    return {path.name: path.stat().st_mode & 0o777 for path in paths}


def test_a_data_folder_is_closed_to_other_users(run: RunConfig, tmp_path: Path) -> None:
    root = tmp_path / "data"
    folder = DataFolder.for_run(root, run)
    for name in ("models", "checkpoints", "logs", "valkey"):
        (root / name).mkdir()
    (root / "run.toml").touch()
    (root / "lock").touch()
    for path in (root, *root.iterdir()):  # modes of an earlier version
        path.chmod(0o755 if path.is_dir() else 0o644)
    with folder.hold("up"):
        found = modes(folder)
    # The user that runs root's Postgres may pass through the folder but not list it.
    assert found.pop("data") == (0o711 if os.geteuid() == 0 else 0o700)
    assert found.pop("lock") == found.pop("zerofleet.json") == found.pop("run.toml") == 0o600
    assert set(found.values()) == {0o700}


def test_the_lock_of_a_store_is_closed_to_other_users(tmp_path: Path) -> None:
    lock = tmp_path / "postgres" / "lock"
    lock.parent.mkdir()
    lock.touch(0o644)
    FolderLock(lock.parent, 0.0).release()
    assert lock.stat().st_mode & 0o077 == 0
    assert lock.parent.stat().st_mode & 0o066 == 0


def test_whoever_holds_the_lock_is_named(run: RunConfig, tmp_path: Path) -> None:
    folder = DataFolder.for_run(tmp_path / "data", run)
    with folder.hold("up"):  # the lock file keeps its process number, and the process ends
        pass
    code = (
        "import fcntl, sys; lock = open(sys.argv[1]); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, folder.root / "lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(ConfigError) as caught, folder.hold("up"):
            pytest.fail("two hold it")
        other.communicate("")
    words = f"(process {other.pid} of user ID {os.getuid()}): stop it first"
    assert (words in str(caught.value)) == lock_holder_is_told()


def lock_holder_is_told() -> bool:
    """Return whether this system reports who holds a lock (Linux)."""
    with tempfile.NamedTemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return lock_holder(Path(file.name)) == os.getpid()
