"""Draw the diagrams of the documentation as SVG files in docs/images; ``--check`` only compares.

Each picture follows the reader's choice of light or dark (``prefers-color-scheme``) and loads
nothing from anywhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"

LINE_HEIGHT = 16
STRAIGHT = 3
"""Pixels by which the ends of a straight arrow may miss each other."""

STYLE = """
  svg { --page: #ffffff; --text: #1f2328; --muted: #59636e; --line: #6e7781; --frame: #d1d9e0;
        --service: #ddf4ff; --service-line: #0969da; --store: #fff8c5; --store-line: #9a6700;
        --step: #f6f8fa; --step-line: #8c959f; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --text: #e6edf3; --muted: #9198a1; --line: #9198a1; --frame: #3d444d;
          --service: #12294d; --service-line: #388bfd; --store: #33270b; --store-line: #d29922;
          --step: #161b22; --step-line: #6e7681; }
  }
  text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--text); }
  .title { font-size: 15px; font-weight: 600; text-anchor: middle; }
  .text { font-size: 12px; fill: var(--muted); text-anchor: middle; }
  .label { font-size: 12px; fill: var(--text); stroke: var(--page); stroke-width: 4px;
           paint-order: stroke; }
  .frame { fill: none; stroke: var(--frame); stroke-width: 1.5; stroke-dasharray: 6 4; }
  .frame-title { font-size: 13px; font-weight: 600; fill: var(--muted); }
  .service { fill: var(--service); stroke: var(--service-line); stroke-width: 1.5; }
  .store { fill: var(--store); stroke: var(--store-line); stroke-width: 1.5; }
  .step { fill: var(--step); stroke: var(--step-line); stroke-width: 1.5; }
  .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
  .head { fill: var(--line); }
  .page { fill: var(--page); }
""".strip("\n")


@dataclass(frozen=True, slots=True)
class Box:
    """A service, a store or a step; positions and sizes are in pixels."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "service"

    def edge(self, side: str, share: float) -> tuple[float, float]:
        """Return the point at this share of a side: ``l``, ``r``, ``t`` or ``b``."""
        match side:
            case "l":
                return self.x, self.y + share * self.height
            case "r":
                return self.x + self.width, self.y + share * self.height
            case "t":
                return self.x + share * self.width, self.y
            case "b":
                return self.x + share * self.width, self.y + self.height
            case _:
                raise ValueError(f"{side!r} is no side of a box: choose l, r, t or b")


@dataclass(frozen=True, slots=True)
class Frame:
    """A dashed frame with a title around some boxes."""

    x: int
    y: int
    width: int
    height: int
    title: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line with an arrowhead between two boxes, named by their titles.

    Args:
        sides: the side where it leaves the source, then the side where it enters the target.
        leave: where on its side it leaves, as a share of the side's length.
        enter: where on its side it enters, as a share of the side's length.
        label_at: where the label is on the longest part, as a share of that part.
        label_left: whether the label of a vertical part is left of it.
    """

    source: str
    target: str
    label: str = ""
    sides: str = "rl"
    leave: float = 0.5
    enter: float = 0.5
    label_at: float = 0.5
    label_left: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """One picture, with a description for readers who do not see it."""

    name: str
    width: int
    height: int
    description: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    frames: tuple[Frame, ...] = ()


MACHINE = Diagram(
    "machine",
    900,
    540,
    "One machine: zerofleet up runs Postgres, Valkey and five services around one data folder.",
    boxes=(
        Box(30, 60, 150, 60, "self-play", ("plays games",)),
        Box(250, 60, 150, 60, "inference", ("batches predictions",)),
        Box(470, 60, 150, 60, "models", ("in the data folder",), "store"),
        Box(690, 60, 180, 60, "trainer", ("trains and publishes",)),
        Box(250, 190, 150, 60, "Valkey", ("in memory",), "store"),
        Box(470, 190, 150, 60, "evaluator", ("plays matches",)),
        Box(690, 190, 130, 60, "checkpoints", ("in the data folder",), "store"),
        Box(250, 320, 620, 60, "Postgres", ("cluster in the data folder",), "store"),
        Box(30, 440, 150, 60, "browser", ("on this machine",), "step"),
        Box(250, 440, 150, 60, "dashboard", ("read-only",)),
    ),
    arrows=(
        Arrow("self-play", "inference", "positions"),
        Arrow("models", "inference", "files", "lr"),
        Arrow("trainer", "models", "writes", "lr"),
        Arrow("trainer", "checkpoints", "state", "bt", 0.36, 0.5),
        Arrow("Valkey", "inference", "best model", "tb", 0.3, 0.3),
        Arrow("evaluator", "Valkey", "pointer", "lr"),
        Arrow("evaluator", "inference", "positions", "tb", 0.3, 0.9),
        Arrow("self-play", "Postgres", "games", "bl"),
        Arrow("evaluator", "Postgres", "promotions", "bt", 0.5, 0.476),
        Arrow("Postgres", "trainer", "games", "tb", 0.97, 0.9, 0.2, label_left=True),
        Arrow("Postgres", "dashboard", "queries", "bt", 0.121, 0.5),
        Arrow("browser", "dashboard", "HTTP"),
    ),
    frames=(Frame(10, 15, 880, 510, "zerofleet up: all processes listen on 127.0.0.1"),),
)

CLUSTER = Diagram(
    "cluster",
    1030,
    490,
    "A cluster: the services in one namespace; stores, bucket, KEDA and browsers outside it.",
    boxes=(
        Box(40, 20, 180, 56, "KEDA", ("scales the Deployments",), "step"),
        Box(360, 20, 116, 56, "programs", ("clients",), "step"),
        Box(660, 20, 180, 56, "bucket", ("model files",), "store"),
        Box(40, 140, 180, 76, "autoscaler", ("reads heartbeats,", "computes replicas")),
        Box(360, 140, 180, 76, "inference", ("Deployment,", "one GPU per replica")),
        Box(660, 140, 180, 76, "trainer", ("StatefulSet, one pod,", "checkpoint volume")),
        Box(40, 250, 180, 70, "self-play", ("Deployment, many", "preemptible CPU pods")),
        Box(360, 250, 180, 70, "evaluator", ("matches, ratings,", "promotions")),
        Box(730, 250, 110, 70, "dashboard", ("read-only",)),
        Box(910, 255, 105, 60, "browsers", ("by Ingress",), "step"),
        Box(40, 410, 220, 60, "Redis", ("best pointer, heartbeats of all",), "store"),
        Box(
            360,
            410,
            480,
            60,
            "Postgres",
            ("the record: games, models, matches, promotions",),
            "store",
        ),
    ),
    arrows=(
        Arrow("KEDA", "autoscaler", "asks", "bt", 0.95, 0.95),
        Arrow("programs", "inference", "gRPC", "bt", 0.5, 0.322),
        Arrow("bucket", "inference", "files", "lt", 0.5, 0.86),
        Arrow("trainer", "bucket", "publishes", "tb"),
        Arrow("self-play", "inference", "positions"),
        Arrow("evaluator", "inference", "", "tb"),
        Arrow("self-play", "Postgres", "games", "bt", 0.75, 0.05),
        Arrow("evaluator", "Postgres", "promotions", "bt", 0.5, 0.1875),
        Arrow("Postgres", "trainer", "games", "tb", 0.6875, 0.167, label_left=True),
        Arrow("Postgres", "dashboard", "queries", "tb", 0.886, 0.5),
        Arrow("browsers", "dashboard", "HTTPS", "lr"),
    ),
    frames=(Frame(20, 100, 840, 240, "namespace zerofleet"),),
)

GAME = Diagram(
    "life-of-a-game",
    900,
    590,
    "A game from its start in a worker to a training batch, and until its searches are dropped.",
    boxes=(
        Box(35, 60, 130, 66, "start", ("uid, opening,", "resign threshold")),
        Box(215, 60, 150, 66, "search", ("selects leaves,", "backs up values")),
        Box(415, 60, 150, 66, "move", ("drawn from the visits,", "until the game ends")),
        Box(615, 60, 110, 66, "record", ("columns,", "digest")),
        Box(765, 60, 114, 66, "spool", ("in memory, until", "acknowledged")),
        Box(215, 250, 150, 66, "inference", ("policy, value,", "model version")),
        Box(410, 250, 160, 66, "unfinished_games", ("every 16 moves, and", "on shutdown"), "store"),
        Box(645, 250, 130, 66, "adopted", ("by another worker,", "which continues")),
        Box(
            752, 380, 140, 66, "submit_games", ("checks and answers,", "once for each uid"), "store"
        ),
        Box(
            520,
            380,
            170,
            66,
            "games, positions",
            ("one row for the game,", "one for each move"),
            "store",
        ),
        Box(290, 380, 160, 66, "window", ("the trainer's", "recent games")),
        Box(50, 380, 170, 66, "training batch", ("planes, policy target,", "value target")),
        Box(520, 505, 170, 66, "dropped partition", ("searches go,", "the game stays"), "step"),
    ),
    arrows=(
        Arrow("start", "search"),
        Arrow("search", "move"),
        Arrow("move", "record"),
        Arrow("record", "spool"),
        Arrow("search", "inference", "leaves", "bt", 0.3, 0.3),
        Arrow("inference", "search", "predictions", "tb", 0.75, 0.75),
        Arrow("move", "unfinished_games", "saved under a lease", "bt"),
        Arrow("unfinished_games", "adopted", "expired"),
        Arrow("spool", "submit_games", "sent", "bt"),
        Arrow("submit_games", "games, positions", "stored", "lr"),
        Arrow("games, positions", "window", "read", "lr"),
        Arrow("window", "training batch", "drawn", "lr"),
        Arrow("games, positions", "dropped partition", "later", "bt"),
    ),
    frames=(Frame(15, 15, 875, 130, "a self-play worker"),),
)

MODEL = Diagram(
    "life-of-a-model",
    900,
    425,
    "A model from the trainer through its check and the gate to inference, and until its removal.",
    boxes=(
        Box(35, 60, 120, 66, "train", ("steps, average", "of weights")),
        Box(205, 60, 120, 66, "export", ("ONNX,", "fp32")),
        Box(375, 60, 130, 66, "variants", ("int8, fp16,", "within bounds")),
        Box(555, 60, 150, 66, "check", ("loaded and compared", "in its own process")),
        Box(750, 60, 130, 66, "file", ("blobs/, named", "by its sha256"), "store"),
        Box(750, 200, 130, 66, "models", ("a row, written", "after the file"), "store"),
        Box(555, 200, 150, 66, "gate", ("match against the", "best, if it is on")),
        Box(365, 200, 140, 66, "promotions", ("a row with the", "next number"), "store"),
        Box(200, 200, 120, 66, "pointer", ("in Redis; only", "moves forward"), "store"),
        Box(35, 200, 120, 66, "inference", ("loads, warms up,", "swaps")),
        Box(35, 340, 120, 66, "self-play", ("answers name", "the version")),
        Box(365, 340, 140, 66, "rating, exam", ("Elo, mistakes",)),
        Box(555, 340, 150, 66, "rejected", ("the row keeps", "the verdict"), "step"),
        Box(750, 340, 130, 66, "removed", ("the file goes,", "the row stays"), "step"),
    ),
    arrows=(
        Arrow("train", "export"),
        Arrow("export", "variants"),
        Arrow("variants", "check"),
        Arrow("check", "file"),
        Arrow("file", "models", "", "bt"),
        Arrow("models", "gate", "", "lr"),
        Arrow("gate", "promotions", "", "lr"),
        Arrow("promotions", "pointer", "", "lr"),
        Arrow("pointer", "inference", "", "lr"),
        Arrow("inference", "self-play", "predictions", "bt"),
        Arrow("promotions", "rating, exam", "afterwards", "bt"),
        Arrow("gate", "rejected", "not better", "bt"),
        Arrow("models", "removed", "retention", "bt"),
    ),
    frames=(Frame(15, 15, 705, 130, "the trainer"),),
)

DIAGRAMS = (MACHINE, CLUSTER, GAME, MODEL)


def render(diagram: Diagram) -> str:
    """Return the SVG file of a diagram."""
    boxes = {box.title: box for box in diagram.boxes}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {diagram.width} {diagram.height}" '
        f'width="{diagram.width}" height="{diagram.height}" role="img">',
        f"<title>{escape(diagram.description)}</title>",
        f"<style>\n{STYLE}\n</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto"><path class="head" d="M0 0 L10 5 L0 10 z"/></marker>'
        "</defs>",
        f'<rect class="page" width="{diagram.width}" height="{diagram.height}" rx="8"/>',
    ]
    for frame in diagram.frames:
        lines += _frame(frame)
    paths = [(arrow, _path(arrow, boxes)) for arrow in diagram.arrows]
    lines += [_line(path) for _, path in paths]
    for box in diagram.boxes:
        lines += _box(box)
    for arrow, path in paths:
        lines += _label(arrow, path)
    return "\n".join([*lines, "</svg>", ""])


def _frame(frame: Frame) -> Iterator[str]:
    yield (
        f'<rect class="frame" x="{frame.x}" y="{frame.y}" width="{frame.width}" '
        f'height="{frame.height}" rx="10"/>'
    )
    place = f'x="{frame.x + 14}" y="{frame.y + 22}"'
    yield f'<text class="frame-title" {place}>{escape(frame.title)}</text>'


def _box(box: Box) -> Iterator[str]:
    yield (
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" '
        f'height="{box.height}" rx="8"/>'
    )
    middle = box.x + box.width / 2
    top = box.y + (box.height - LINE_HEIGHT * len(box.lines)) / 2 + 5
    yield f'<text class="title" x="{middle:g}" y="{top:g}">{escape(box.title)}</text>'
    for number, line in enumerate(box.lines, 1):
        yield (
            f'<text class="text" x="{middle:g}" y="{top + number * LINE_HEIGHT + 2:g}">'
            f"{escape(line)}</text>"
        )


def _path(arrow: Arrow, boxes: dict[str, Box]) -> list[tuple[float, float]]:
    """Return the corners of an arrow, which runs along the axes."""
    out, into = arrow.sides
    start = boxes[arrow.source].edge(out, arrow.leave)
    end = boxes[arrow.target].edge(into, arrow.enter)
    (x, y), (to_x, to_y) = start, end
    sideways = {"l", "r"}
    if out in sideways and into in sideways:
        if abs(y - to_y) < STRAIGHT:
            return [start, (to_x, y)]
        middle = (x + to_x) / 2
        return [start, (middle, y), (middle, to_y), end]
    if out not in sideways and into not in sideways:
        if abs(x - to_x) < STRAIGHT:
            return [start, (x, to_y)]
        middle = (y + to_y) / 2
        return [start, (x, middle), (to_x, middle), end]
    return [start, (to_x, y) if out in sideways else (x, to_y), end]


def _line(path: list[tuple[float, float]]) -> str:
    points = " ".join(f"{x:g},{y:g}" for x, y in path)
    return f'<polyline class="line" points="{points}" marker-end="url(#head)"/>'


def _label(arrow: Arrow, path: list[tuple[float, float]]) -> Iterator[str]:
    """Yield the label at the middle of the arrow's longest part."""
    if not arrow.label:
        return
    (x, y), (to_x, to_y) = max(
        pairwise(path),
        key=lambda part: abs(part[0][0] - part[1][0]) + abs(part[0][1] - part[1][1]),
    )
    middle_x, middle_y = x + arrow.label_at * (to_x - x), y + arrow.label_at * (to_y - y)
    if y == to_y:
        place = f'x="{middle_x:g}" y="{middle_y - 7:g}" text-anchor="middle"'
    elif arrow.label_left:
        place = f'x="{middle_x - 7:g}" y="{middle_y + 4:g}" text-anchor="end"'
    else:
        place = f'x="{middle_x + 7:g}" y="{middle_y + 4:g}"'
    yield f'<text class="label" {place}>{escape(arrow.label)}</text>'


def main() -> int:
    """Write or compare the pictures, and return the exit status of the process."""
    stale = [
        diagram.name
        for diagram in DIAGRAMS
        if not (path := FOLDER / f"{diagram.name}.svg").exists()
        or path.read_text(encoding="utf-8") != render(diagram)
    ]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/images/{name}.svg is stale: run scripts/diagrams.py", file=sys.stderr)
        return 1 if stale else 0
    for diagram in DIAGRAMS:
        (FOLDER / f"{diagram.name}.svg").write_text(render(diagram), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
