"""AlphaZero-style training for two-player board games, as a fleet of services.

The layers, top to bottom, as ``pyproject.toml`` has import-linter check them; a module imports
only from layers below its own:

- ``zerofleet.services``: one package for each service. The folder is ``services`` in the
  repository, to which a symbolic link leads from here.
- ``zerofleet.command`` and ``zerofleet.opened_run``: entry points, from a shell and from Python.
- ``zerofleet.cli``: the commands a person types.
- ``zerofleet.local``: embedded stores and the supervisor behind ``zerofleet up``.
- ``zerofleet.comparison`` (torch): run files trained side by side, behind ``zerofleet compare``.
- ``zerofleet.exam``: a player's error rate against perfect play, and its games against GNU Go.
- ``zerofleet.match``: games between two players, and the players that never change.
- ``zerofleet.gtp``: the Go Text Protocol, as a server and as a client of other engines;
  ``zerofleet.uci``: the Universal Chess Interface, as both too.
- ``zerofleet.engine_lines``: options, standard input and output of such an engine;
  ``zerofleet.engine_process``: the process of another engine; ``zerofleet.own_player``: a player
  of one's own, and the process in which it runs.
- ``zerofleet.client``: for programs that use a trained player; sync and asyncio.
- ``zerofleet.rpc``: the wire: Open Inference Protocol and ``zerofleet.v1.Player``.
- ``zerofleet.learning`` (torch): our network, losses and optimizers, the training window.
- ``zerofleet.network`` (torch): the base class of networks, ours and yours.
- ``zerofleet.models``: exported models, and sessions that run them.
- ``zerofleet.service``: common behaviour of services.
- ``zerofleet.fleet``: heartbeats and their figures; the report of a run, its disk usage and needs.
- ``zerofleet.best_pointer``: the version of the best model, in Redis.
- ``zerofleet.database``: everything in Postgres; ``zerofleet.redis_connection``: Redis clients.
- ``zerofleet.search_configs``: search settings of matches and clients, from a run file.
- ``zerofleet.config``: the run file and the settings of a process.
- ``zerofleet.games``: the rules of the games, in Python.
- ``zerofleet.waiting``: waiting for other processes, with logs.
- ``zerofleet.records`` and ``zerofleet.prediction``: data that services exchange;
  ``zerofleet.verdict``: the decision of a gate's match.
- ``zerofleet.secrets``: passwords, tokens and certificates, all in files.
- ``zerofleet.cpus``: the number of CPUs that a process may use; ``zerofleet.errors``;
  ``zerofleet.printable``: untrusted text without control characters;
  ``zerofleet.launch``: processes that die with their parent.

Below them all is ``zerofleet_core``, the C++ search and rules.
"""

import importlib
from typing import Any

__version__ = "1.0.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - __init__.pyi has the types
    """Import ``open`` when it is first used, because it needs much that a client does not."""
    if name == "open":
        return importlib.import_module("zerofleet.opened_run").open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
