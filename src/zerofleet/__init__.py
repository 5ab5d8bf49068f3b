"""AlphaGo-Zero-style training as a fleet of small services.

The layers, top to bottom, as ``pyproject.toml`` has import-linter check them; a module imports
only from layers below its own:

- ``zerofleet.services``: one package for each service. The folder is ``services`` in the
  repository, to which a symbolic link leads from here.
- ``zerofleet.command`` and ``zerofleet.cli``: the commands a person types.
- ``zerofleet.local``: embedded stores and the supervisor behind ``zerofleet up``.
- ``zerofleet.exam``: how often a player errs where perfect play is known, or how it plays GNU Go.
- ``zerofleet.match``: games between two players, and the players that never change.
- ``zerofleet.gtp``: the Go Text Protocol, as a server and as a client of other engines.
- ``zerofleet.client``: for programs that ask a trained player; sync and asyncio.
- ``zerofleet.rpc``: the wire: Open Inference Protocol and ``zerofleet.v1.Player``.
- ``zerofleet.learning`` (torch): the network, its loss and optimizers, the training window.
- ``zerofleet.models``: exported models, and sessions that run them.
- ``zerofleet.service``: what every service does the same way.
- ``zerofleet.fleet``: heartbeats and their figures; the report of a run, its disk usage and needs.
- ``zerofleet.best_pointer``: the version of the best model, in Redis.
- ``zerofleet.database``: what lives in Postgres; ``zerofleet.redis_connection``: reaching Redis.
- ``zerofleet.search_configs``: the core's search, as matches and clients get it from a run file.
- ``zerofleet.config``: the run file and the settings of a process.
- ``zerofleet.games``: the rules, as Python sees them.
- ``zerofleet.waiting``: waiting for others, out loud.
- ``zerofleet.records`` and ``zerofleet.prediction``: the nouns that travel between services;
  ``zerofleet.verdict``: what the games of a gate's match decide.
- ``zerofleet.secrets``: passwords, tokens and certificates, all of them files.
- ``zerofleet.errors``, and ``zerofleet.printable``: text of others without control characters.

Below them all is ``zerofleet_core``, the C++ search and rules.
"""

__version__ = "1.0.0"
