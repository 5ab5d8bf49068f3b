"""A network of one's own: its keys, its losses, and what is said about each mistake."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support.own_networks import Searching
from zerofleet.comparison.learning_loop import LearningLoop
from zerofleet.config import (
    NetworkSection,
    Overrides,
    RunConfig,
    load_run,
    run_file_text,
    run_from_values,
)
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.learning import Learner, make_network
from zerofleet.learning.export import random_positions
from zerofleet.learning.network_check import check_network
from zerofleet.learning.window import draw
from zerofleet.network import Network, Outputs, Shapes, Targets, data_losses

GAME = "tic_tac_toe"


class Small(Network):
    """Two layers; the faults below change one thing each."""

    @dataclass(frozen=True)
    class Options:
        """Keys of ``[network]``."""

        width: int = 16
        stones: float = 1.0

    def __init__(self, shapes: Shapes, options: Options) -> None:
        super().__init__(shapes)
        self.hidden = nn.Linear(shapes.planes * shapes.points, options.width)
        self.policy = nn.Linear(options.width, shapes.num_actions)
        self.value = nn.Linear(options.width, 3)

    def forward(self, planes: Tensor) -> Any:
        hidden = self.hidden(planes.flatten(1)).relu()
        return self.policy(hidden), self.value(hidden)


class WithLoss(Small):
    """Learns its own guess of the number of stones, too."""

    training_only = ("stones",)

    def __init__(self, shapes: Shapes, options: Small.Options) -> None:
        super().__init__(shapes, options)
        self.stones: nn.Linear | None = nn.Linear(options.width, 1)
        self.loss_weights = {"stones": options.stones}

    def forward(self, planes: Tensor) -> Outputs:
        hidden = self.hidden(planes.flatten(1)).relu()
        named = {"count": planes.sum((1, 2, 3)).unsqueeze(1)}
        if self.stones is not None:
            named["stones"] = self.stones(hidden)
        return Outputs(self.policy(hidden), self.value(hidden), named)

    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        error = (outputs.named["stones"] - outputs.named["count"]).square().mean()
        return data_losses(outputs, targets) | {"stones": error}


class UnknownTarget(Small):
    extra_targets = ("root_value", "regret")


class TargetsOfAText(Small):
    extra_targets: Any = "root_value"


class WrongShape(Small):
    def forward(self, planes: Tensor) -> Any:
        policy, value = super().forward(planes)
        return policy[:, :5], value


class WrongType(Small):
    def forward(self, planes: Tensor) -> Any:
        policy, value = super().forward(planes)
        return policy.double(), value


class NotANumber(Small):
    def forward(self, planes: Tensor) -> Any:
        policy, value = super().forward(planes)
        return policy / 0 * 0, value


class TooLarge(Small):
    def forward(self, planes: Tensor) -> Any:
        policy, value = super().forward(planes)
        return policy, value.sum(1).exp() + 1


class Raises(Small):
    def forward(self, planes: Tensor) -> Any:
        raise RuntimeError("no such layer")


class RaisesAtFirst(Small):
    def __init__(self, shapes: Shapes, options: Small.Options) -> None:
        super().__init__(shapes, options)
        raise RuntimeError("no such option")


class OneOutput(Small):
    def forward(self, planes: Tensor) -> Any:
        return super().forward(planes)[0]


class NoOptions(Network):
    def __init__(self, shapes: Shapes, options: None) -> None:
        del options
        super().__init__(shapes)
        self.all = nn.Linear(shapes.planes * shapes.points, shapes.num_actions + 1)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        found = self.all(planes.flatten(1))
        return found[:, :-1], found[:, -1].tanh()


class Unused(Small):
    def __init__(self, shapes: Shapes, options: Small.Options) -> None:
        super().__init__(shapes, options)
        self.forgotten = nn.Linear(3, 3)


class NoWeights(Network):
    def __init__(self, shapes: Shapes, options: None) -> None:
        del options
        super().__init__(shapes)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        return planes.flatten(1)[:, :9], planes.sum((1, 2, 3)).tanh()


class Unnamed(Small):
    training_only = ("stones",)


class TwoForms(Small):
    def forward(self, planes: Tensor) -> Any:
        policy, value = super().forward(planes)
        return policy, value if self.training else value[:, 0].tanh()


class LossRaises(Small):
    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        return {"mine": targets.named["opponent_policy"].mean()}


class TakesAll(Small):
    extra_targets = ("opponent_policy",)

    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        error = outputs.policy_logits - targets.named["opponent_policy"]
        return data_losses(outputs, targets) | {"reply": error.square().mean()}


class LossOfAFloat(Small):
    def losses(self, outputs: Outputs, targets: Targets) -> Any:
        return {"mine": 0.5}


class LossOfRows(Small):
    def losses(self, outputs: Outputs, targets: Targets) -> Any:
        return {"mine": outputs.value[:, 0]}


class NoLoss(Small):
    def losses(self, outputs: Outputs, targets: Targets) -> Any:
        return {}


class PlainOptions(NoOptions):
    class Options:
        """No dataclass."""

        width = 3


class NotANetwork(nn.Module):
    """It is not derived from Network."""


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # pyright: ignore


def section(name: str, **keys: Any) -> NetworkSection:
    return NetworkSection(**{"name": f"python:{Path(__file__).stem}:{name}", **keys})


def network(name: str, **keys: Any) -> Network:
    return make_network(spec(GAME), section(name, **keys), seed=1)


def test_the_keys_of_the_class() -> None:
    made = network("Small", width=24)
    assert made.state_dict()["hidden.weight"].shape == (24, 27)
    again, other = network("Small", width=24), make_network(spec(GAME), section("Small"), seed=2)
    assert all(
        torch.equal(each, again.state_dict()[name]) for name, each in made.state_dict().items()
    )
    assert other.state_dict()["hidden.weight"].shape == (16, 27)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("Small", {"widht": 3}, "unknown key 'network.widht': known keys are width, stones"),
        ("Small", {"width": "wide"}, "network.width: Input should be a valid integer"),
        ("NoOptions", {"width": 3}, "unknown keys width: the class has no Options"),
        ("NotANetwork", {}, "derive the class from zerofleet.network.Network"),
        ("Smal", {}, "has no class Smal; did you mean 'Small'"),
        ("RaisesAtFirst", {}, r"__init__\(shapes, options\) fails .*RuntimeError: no such option"),
        ("Raises", {}, r"Raises.forward\(planes\) fails .*RuntimeError: no such layer"),
        ("OneOutput", {}, "OneOutput.forward"),
        ("WrongShape", {}, r"policy logits: must have the shape \[2, 9\], not \[2, 5\]"),
        ("WrongType", {}, "policy logits: must be float32, not float64"),
        ("NotANumber", {}, "numbers that are not finite"),
        ("TooLarge", {}, r"values must be in \[-1, 1\]"),
        ("NoWeights", {}, "the network has no weights to learn"),
        ("Unnamed", {}, "training_only names stones: give a tuple of names of submodules"),
        (
            "UnknownTarget",
            {},
            r"^UnknownTarget.extra_targets: unknown target 'regret'; known targets are "
            r"opponent_policy, final_planes, final_score, root_value, search_surprise, "
            r"plies_to_end$",
        ),
        ("TargetsOfAText", {}, r"give a tuple of names, such as \('root_value',\)"),
        ("TwoForms", {}, "the same form in training and in evaluation mode"),
        ("PlainOptions", {}, r"write @dataclass\(frozen=True\) above its Options"),
    ],
)
def test_a_mistake_is_named(name: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        network(name, **keys)


def test_all_wrong_keys_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        network("Small", widht=3, stones="many")
    assert "network.widht" in str(raised.value)
    assert "network.stones" in str(raised.value)


def test_a_class_without_options() -> None:
    policy, value = network("NoOptions").predict(torch.zeros(4, 4, dtype=torch.uint8))
    assert policy.shape == (4, 9)
    assert value.shape == (4,)


def a_run(name: str, **keys: Any) -> RunConfig:
    return run_from_values(
        {
            "name": "own",
            "game": GAME,
            "network": section(name, **keys).model_dump(),
            "trainer": {
                "average_decay": 0.5,
                "average_every_steps": 1,
                "l2": 0.0,
                "weight_decay": 0.0,
            },
        }
    )


def batch() -> tuple[Any, ...]:
    generator = np.random.default_rng(1)
    observations = random_positions(spec(GAME), 32, generator)
    policy = generator.dirichlet(np.ones(9), 32).astype(np.float32)
    return observations, policy, generator.choice([-1.0, 1.0], 32).astype(np.float32)


def test_a_loss_of_its_own_is_learnt_by_its_weight() -> None:
    moved: list[Tensor] = []
    for weight in (1.0, 0.0):
        run = a_run("WithLoss", stones=weight)
        learner = Learner(spec(GAME), run)
        before = learner.network.state_dict()["stones.weight"].clone()
        learner.train(cast("Any", batch()))
        assert [*learner.auxiliary_losses] == ["stones"]
        moved.append((learner.network.state_dict()["stones.weight"] - before).abs().sum())
    assert moved[0] > 0
    assert moved[1] == 0
    published = learner.published
    assert "stones.weight" not in published.state_dict()
    assert published.predict(torch.zeros(2, 4, dtype=torch.uint8))[1].shape == (2,)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "LossRaises",
            r"LossRaises.losses fails: KeyError: 'opponent_policy' \(targets.named: none; "
            r"outputs.named: none\). Targets that LossRaises.extra_targets can name in this game: "
            r"opponent_policy, root_value, search_surprise, plies_to_end",
        ),
        ("LossOfAFloat", "'mine' must be a tensor with one number"),
        ("LossOfRows", "'mine' must be a tensor with one number"),
        ("NoLoss", "must return a dictionary of losses"),
    ],
)
def test_a_mistake_in_losses_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Learner(spec(GAME), a_run(name)).train(cast("Any", batch()))


def test_training_resumes_to_the_bit() -> None:
    run = a_run("WithLoss")
    straight, before, after = (Learner(spec(GAME), run) for _ in range(3))
    for learner in (straight, before):
        for _ in range(3):
            learner.train(cast("Any", batch()))
    after.restore({name: each.clone() for name, each in before.state().items()}, 3, 96)
    for learner in (straight, after):
        learner.train(cast("Any", batch()))
    first, second = straight.state(), after.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def searching_run() -> RunConfig:
    return run_from_values(
        {
            "name": "own",
            "game": GAME,
            "network": {"name": "python:tests.support.own_networks:Searching"},
            "search": {"num_simulations": 8},
            "selfplay": {"games_per_engine": 16},
            "trainer": {"batch_size": 32, "min_positions": 64},
        }
    )


def test_targets_of_searches_are_learnt_and_training_resumes_to_the_bit() -> None:
    run = searching_run()
    shapes = Learner(spec(GAME), run).network.shapes
    assert shapes.drawn_targets == {"root_value": 1, "search_surprise": 1, "plies_to_end": 1}
    loop = LearningLoop(run, "fp32")
    while loop.learner.step < 5:
        loop.turn()
    assert set(loop.learner.auxiliary_losses) == set(Searching.extra_targets)
    assert "further.weight" not in loop.learner.published.state_dict()
    straight, before, after = (Learner(spec(GAME), run) for _ in range(3))
    drawn = [draw(loop._window, 32, seed, symmetry=True) for seed in range(4)]
    losses: list[dict[str, float]] = []
    for step in range(60):
        straight.train(drawn[step % 4])
        losses.append(straight.auxiliary_losses)
        if step < 30:
            before.train(drawn[step % 4])
    assert all(losses[-4][name] < losses[0][name] for name in Searching.extra_targets)
    after.restore({name: each.clone() for name, each in before.state().items()}, 30, 30 * 32)
    for step in range(30, 60):
        after.train(drawn[step % 4])
    first, second = straight.state(), after.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


RUN = """
name = "own"
game = "tic_tac_toe"
"""


def read(tmp_path: Path, text: str, *options: str) -> RunConfig:
    path = tmp_path / "run.toml"
    path.write_text(RUN + text)
    return load_run(path, Overrides.read(options))


def test_a_run_file_names_a_class(tmp_path: Path) -> None:
    run = read(tmp_path, 'network = "python:nets:Mine"')
    assert run.network.name == "python:nets:Mine"
    run = read(tmp_path, '[network]\nname = "python:nets:Mine"\nwidth = 3\nlayers = [1, 2]')
    assert run.network.options == {"width": 3, "layers": [1, 2]}
    again = RunConfig.model_validate_json(run.model_dump_json())
    assert again.network == run.network


def test_options_override_its_keys(tmp_path: Path) -> None:
    text = '[network]\nname = "python:nets:Mine"\nwidth = 3'
    run = read(tmp_path, text, "network.width=5", "network.depth=2.5", "network.kind=wide")
    assert run.network.options == {"width": 5, "depth": 2.5, "kind": "wide"}
    copy = run_file_text(tmp_path / "run.toml", run, overrides=Overrides.read(["network.width=5"]))
    assert "width = 5" in copy


def test_a_name_alone_takes_options_too(tmp_path: Path) -> None:
    run = read(tmp_path, 'network = "python:nets:Mine"', "network.width=5")
    assert run.network.options == {"width": 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('network = "pyton:nets:Mine"', "give residual, attention or python:MODULE:CLASS"),
        ('[network]\nname = "python:nets:Mine"\noptions = 3', "options: Input should be a table"),
        ("network = 5", "network"),
        ('[network]\nname = "attention"\nsqueeze_excitation = true', "has no effect with network"),
    ],
)
def test_a_wrong_name_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_a_preset_has_no_keys_for_it(tmp_path: Path) -> None:
    run = read(tmp_path, 'preset = "agz"\nnetwork = "python:nets:Mine"')
    assert run.network.options == {}


def test_keys_of_ours_are_still_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"network\.widht"):
        read(tmp_path, "[network]\nwidht = 3")


def lines(tmp_path: Path, text: str) -> Iterator[str]:
    path = tmp_path / "run.toml"
    path.write_text(RUN + text)
    checked = subprocess.run(
        [sys.executable, "-m", "zerofleet.learning.network_check", str(path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    yield str(checked.returncode)
    yield from (checked.stdout + checked.stderr).splitlines()


def test_check_network_says_what_it_found(tmp_path: Path) -> None:
    text = f'network = "python:{Path(__file__).stem}:WithLoss"'
    status, *said = lines(tmp_path, text)
    assert status == "0", said
    found = [line.partition(":")[0] for line in said]
    wanted = ["python", "outputs", "gradient", "export", "int8", "fp16", "training", "speed"]
    assert found == wanted
    status, *said = lines(tmp_path, text.replace("WithLoss", "Unused"))
    assert status == "0"
    [note] = [line for line in said if line.startswith("gradient")]
    assert note.startswith("gradient: forgotten.weight, forgotten.bias begin without a gradient")


def test_check_network_has_the_targets_of_the_class() -> None:
    said: list[str] = []
    check_network(searching_run(), said.append)
    assert said[-2].startswith("training: ")


def test_check_network_has_positions_without_a_target(tmp_path: Path) -> None:
    status, *said = lines(tmp_path, f'network = "python:{Path(__file__).stem}:TakesAll"')
    assert status == "1"
    assert "'reply' is nan before any training; positions without opponent_policy" in said[-1]


@pytest.mark.parametrize("name", ["Perceptron", "Counting", "Searching", "Grouped"])
def test_the_classes_of_the_page_are_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "own-network.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "nets_of_the_page.py").write_text("\n\n".join(blocks))
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore
    values = {"name": "own", "game": GAME, "network": f"python:nets_of_the_page:{name}"}
    learner = Learner(spec(GAME), run_from_values(values))
    extra = (np.ones((32, 2), np.float32),) if name == "Searching" else ()
    learner.train(cast("Any", (*batch(), *extra)))
    assert learner.published.predict(torch.zeros(2, 4, dtype=torch.uint8))[0].shape == (2, 9)
