"""Main figures of the benchmarks, and their targets on two cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.report import Row


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one row.

    Args:
        label: name in the table.
        values: fields by which the row is found, and their values.
        field: field of the row with the number.
        target: the least value; None: the number has no target.
        is_limit: the target is the largest value instead.
        form: format of the number.
    """

    label: str
    values: Mapping[str, object]
    field: str
    target: float | None = None
    is_limit: bool = False
    form: str = ",.0f"

    def fits(self, row: Row) -> bool:
        """Return whether the row has this figure."""
        is_found = all(row.get(name) == value for name, value in self.values.items())
        return is_found and self.field in row

    def is_met(self, value: float) -> bool:
        """Return whether a value reaches the target; True without one."""
        if self.target is None:
            return True
        return value <= self.target if self.is_limit else value >= self.target


def _efficiency(game: str, path: str, precision: str = "fp32") -> Mapping[str, object]:
    known = {"bench": "efficiency", "game": game, "path": path}
    return {**known, "precision": precision, "reuse": False}


def _speed(
    name: str, game: str, precision: str, ratio: float, rate: float | None = None
) -> Iterator[Figure]:
    """Yield the figures of one network in one precision.

    Args:
        name: short name of the workload.
        game: name of the workload.
        precision: precision of the model.
        ratio: least ratio to ONNX Runtime alone.
        rate: least positions per CPU-second over gRPC; None: no target.
    """
    raw, grpc = _efficiency(game, "raw", precision), _efficiency(game, "grpc", precision)
    yield Figure(
        f"{name} {precision}, ONNX Runtime, positions/CPU-s", raw, "positions_per_cpu_second"
    )
    yield Figure(
        f"{name} {precision}, gRPC, positions/CPU-s", grpc, "positions_per_cpu_second", rate
    )
    yield Figure(
        f"{name} {precision}, gRPC / ONNX Runtime", grpc, "ratio_to_raw", ratio, form=".3f"
    )
    least = None if game == "tic_tac_toe" or precision != "fp32" else 0.95
    yield Figure(
        f"{name} {precision}, gRPC / in process", grpc, "ratio_to_inprocess", least, form=".3f"
    )


def _tree(game: str, simulations: int) -> Mapping[str, object]:
    return {"bench": "tree", "game": game, "simulations": simulations, "path": "python"}


def _trees() -> Iterator[Figure]:
    for name, game, least in (
        ("W1", "connect_four", 3e6),
        ("W3", "go9", 3e5),
        ("W2", "tic_tac_toe", None),
    ):
        for simulations in (100, 800):
            row = _tree(game, simulations)
            target = least if simulations == 100 else None
            label = f"{name}, tree alone, {simulations}: "
            yield Figure(f"{label}simulations/CPU-s", row, "simulations_per_cpu_second", target)
            yield Figure(f"{label}bytes/node", row, "bytes_per_node", 64, True, ".0f")
            yield Figure(f"{label}bytes/edge", row, "bytes_per_edge", 40, True, ".0f")


def _figures() -> Iterator[Figure]:
    yield from _speed("W1", "connect_four", "fp32", 0.90)
    yield from _speed("W1", "connect_four", "int8", 0.85, 18_000)
    yield from _speed("W3", "go9", "fp32", 0.90)
    yield from _speed("W3", "go9", "int8", 0.85, 7_500)
    yield from _speed("W2", "tic_tac_toe", "fp32", 0.70)
    reuse = {**_efficiency("connect_four", "grpc"), "reuse": True}
    yield Figure(
        "W1, simulations/position with cache and tree reuse",
        reuse,
        "simulations_per_position",
        1.3,
        form=".2f",
    )
    yield from _trees()
    for name, game, least in (("W1", "connect_four", 3e5), ("W3", "go9", 5e4)):
        sample = {"bench": "replay", "game": game, "path": "sample"}
        load = {"bench": "replay", "game": game, "path": "load"}
        train = {"bench": "train", "game": game, "path": "trainer"}
        yield Figure(
            f"{name}, replay to batch, positions/CPU-s", sample, "positions_per_cpu_second", least
        )
        yield Figure(f"{name}, window from Postgres, rows/s", load, "rows_per_second")
        yield Figure(f"{name}, trainer / bare loop", train, "ratio_to_bare", form=".3f")
        yield Figure(f"{name}, trainer, samples/s", train, "samples_per_second")
    memory = {"bench": "memory", "game": "go9", "games": 512, "simulations": 800}
    yield Figure(
        "W3, worker, 512 games of 800 simulations, MiB", memory, "most_resident_mib", 1024, True
    )
    serve = {"bench": "serve", "clients": 1, "batch": 256, "path": "stream"}
    yield Figure("gRPC, 256 rows, us/position of both ends", serve, "us_per_position", form=".2f")
    yield Figure("gRPC, 256 rows, p99 ms", serve, "p99_ms", form=".2f")
    for workers in (1, 4):
        store = {"bench": "store", "workers": workers}
        yield Figure(f"store, {workers} workers, positions/s", store, "positions_per_second")


def figures(rows: Sequence[Row]) -> list[tuple[Figure, float]]:
    """Return the figures that the rows have, with their values, in the order of the table.

    Args:
        rows: rows of all benchmarks. Of several rows with the same figure, the last one counts.
    """
    found: list[tuple[Figure, float]] = []
    for figure in _figures():
        values = [row[figure.field] for row in rows if figure.fits(row)]
        if values and isinstance(values[-1], int | float):
            found.append((figure, float(values[-1])))
    return found
