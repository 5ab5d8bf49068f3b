"""Start of a run in its data folder; a failure undoes it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Self

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.fleet.disk import MARKER
from zerofleet.local.data_folder import OLD, REPLACED, DataFolder, full_disk_named, is_log
from zerofleet.local.postgres import SHARED
from zerofleet.local.postgres_cluster import Cluster


class Start:
    """Holds the data folder of a run while ``zerofleet up`` runs.

    Until ``succeeded`` is called, leaving the block undoes the start: an old folder gets its run
    file and its list of stores back, and a new folder is removed except for its logs. If the
    process is killed before, the next command that uses the folder gives these files back.

    Args:
        root: the data folder, which need not exist.
        run: the run.
        run_file: where it was read from.

    Raises:
        ConfigError: the run file cannot be copied; or the folder belongs to another run, is in use,
            holds other things, or cannot be written.
    """

    def __init__(self, root: Path, run: RunConfig, run_file: Path) -> None:
        self._root = root
        self._run = run
        self._run_file = run_file
        self._written = False
        self._succeeded = False
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self._run_file.is_file():  # a shell's <(...), which can be read only once
            raise ConfigError(f"cannot copy {self._run_file}: give a run file that is a plain file")
        folders = [self._root.absolute(), *self._root.absolute().parents]
        self._made = [folder for folder in folders if not os.path.lexists(folder)]
        had_marker = os.path.exists(self._root / MARKER)
        try:
            self.folder = DataFolder.for_run(self._root, self._run)
            self._exit.enter_context(self.folder.hold("up"))
        except BaseException:
            self._remove_empty()
            raise
        self._root = self.folder.root
        try:
            self._check_rights()
        except BaseException:
            self._exit.close()
            raise
        self.is_new = not had_marker and not self.folder.run_file.exists()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._exit:
            if self._succeeded:
                return
            if self.is_new:
                self._remove()
            else:
                self._restore()

    def write(self, run: RunConfig) -> None:
        """Copy the run file into the folder, where the services read it.

        Args:
            run: the run to write into the copy.

        Raises:
            ConfigError: the copy cannot be written.
        """
        with full_disk_named(self._root):
            for name in REPLACED:
                source, copy = self._root / name, self._root / f"{name}{OLD}"
                part = copy.with_name(f"{copy.name}.new")
                part.unlink(missing_ok=True)
                if source.exists():
                    part.touch(0o600)  # at no moment may another user read a password
                    shutil.copy2(source, part)
                    part.replace(copy)  # a copy that was begun must never be given back
        self._written = True
        self.folder.keep_run_file(self._run_file, run)

    def succeeded(self) -> None:
        """Keep the changes of this start."""
        if not self._succeeded:
            self._succeeded = True
            for name in REPLACED:  # now: a run that is killed hours later has started
                (self._root / f"{name}{OLD}").unlink(missing_ok=True)

    def _check_rights(self) -> None:
        """Refuse a folder with files of another user, such as a copy made by root.

        Raises:
            ConfigError: a file cannot be read, or a folder or log cannot be written.
        """
        if os.geteuid() == 0:
            return
        for folder, folders, names in os.walk(self._root):
            if Path(folder) == self._root / "postgres":
                folders[:] = [name for name in folders if name != "cluster"]  # Cluster checks it
            for name in (*folders, *names):
                path = Path(folder) / name
                is_written = name in folders or is_log(name) or "valkey" in path.parts
                mode = os.R_OK | (os.W_OK if is_written else 0)
                effective = os.access in os.supports_effective_ids
                if not os.access(path, mode, effective_ids=effective):
                    raise ConfigError(
                        f"{path} belongs to user ID {path.lstat().st_uid} and cannot be used: "
                        "start as that user, or as root give the data folder to your user "
                        f"(chown -R {os.geteuid()}:{os.getegid()} {self._root})"
                    )

    def _restore(self) -> None:
        given_back = self.folder.give_back()
        for name in REPLACED:
            if self._written and name not in given_back:
                (self._root / name).unlink(missing_ok=True)

    def _remove(self) -> None:
        """Remove everything except logs, which the error may refer to."""
        Cluster(self._root / "postgres", SHARED).remove_outside()
        for folder, _, names in os.walk(self._root):
            for name in names:
                if not is_log(name):
                    (Path(folder) / name).unlink(missing_ok=True)
        for folder, names, _ in os.walk(self._root, topdown=False):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):  # it holds logs
                    path.unlink() if path.is_symlink() else path.rmdir()
        self._remove_empty()

    def _remove_empty(self) -> None:
        """Remove the folders that this start has made if they are empty."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()
