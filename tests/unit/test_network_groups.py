"""Groups of weights with factors of their own: their steps, their checkpoints, their mistakes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from tests.unit.test_network_own import GAME, Small, a_run, batch
from zerofleet.config import RunConfig, run_from_values
from zerofleet.errors import ConfigError
from zerofleet.games import spec
from zerofleet.learning import AdamW, Learner, Momentum, Muon
from zerofleet.network import ParameterGroup, Shapes


class Grouped(Small):
    """A head that learns by a schedule of its own, and biases without decay."""

    def matrices(self) -> Any:
        yield self.hidden.weight

    def parameter_groups(self) -> list[ParameterGroup]:
        heads = [self.policy.weight, self.value.weight]
        biases = [each for each in self.parameters() if each.ndim == 1]
        return [
            ParameterGroup([self.hidden.weight], learning_rate_factor=0.5, weight_decay_factor=3.0),
            ParameterGroup(heads, lambda steps: 1 / (1 + steps)),
            ParameterGroup(biases, weight_decay_factor=0.0),
        ]


class Frozen(Small):
    def parameter_groups(self) -> Any:
        rest = (each for name, each in self.named_parameters() if not name.startswith("hidden"))
        yield ParameterGroup(list(self.hidden.parameters()), 0.0, 0.0)
        yield ParameterGroup(rest)  # pyright: ignore[reportArgumentType]  which a class may write


class Missing(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(list(self.hidden.parameters()))]


class Twice(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(list(self.parameters())), ParameterGroup([self.policy.bias])]


class Foreign(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup([nn.Parameter(torch.zeros(2))])]


class NoGroups(Small):
    def parameter_groups(self) -> Any:
        return [list(self.parameters())]


class Raising(Small):
    def parameter_groups(self) -> Any:
        return self.no_such_layer


class Negative(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(list(self.parameters()), -0.5)]


class NoDecay(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(list(self.parameters()), 1.0, cast("float", None))]


class LaterWrong(Small):
    def parameter_groups(self) -> list[ParameterGroup]:
        return [ParameterGroup(list(self.parameters()), lambda steps: 1.0 if steps < 2 else -1.0)]


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # pyright: ignore
    torch.set_num_threads(1)


def run_of(name: str, optimizer: str = "sgd") -> RunConfig:
    kind = f"python:{Path(__file__).stem}:{name}"
    return run_from_values(
        {
            "name": "groups",
            "game": GAME,
            "network": {"name": kind},
            "trainer": {
                "batch_size": 32,
                "optimizer": optimizer,
                "learning_rate": (0.001 if optimizer == "adamw" else 0.05,),
            },
        }
    )


Made = Callable[[Grouped, float, Any], Any]
OPTIMIZERS: dict[str, Made] = {
    "sgd": lambda net, decay, groups: Momentum(net.parameters(), 0.9, decay, groups),
    "adamw": lambda net, decay, groups: AdamW(net.parameters(), 0.9, decay, groups),
    "muon": lambda net, decay, groups: Muon(net, 0.9, decay, decay, groups),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_group_takes_the_steps_of_an_optimizer_with_its_settings(name: str) -> None:
    make = OPTIMIZERS[name]

    def trained(rates: Callable[[int], float], decay: float, *, grouped: bool) -> dict[str, Tensor]:
        torch.manual_seed(1)
        net = Grouped(Shapes.of(spec(GAME)), Grouped.Options())
        optimizer = make(net, decay, net.parameter_groups() if grouped else ())
        generator = torch.Generator().manual_seed(2)
        for step in range(4):
            gradient = torch.randn(optimizer.gradient.shape, generator=generator)
            optimizer.gradient.copy_(gradient)
            optimizer.prepare(rates(step), step)
            optimizer.step()
        return {key: each.clone() for key, each in net.state_dict().items()}

    found = trained(lambda _: 0.1, 0.01, grouped=True)
    half = trained(lambda _: 0.05, 0.03, grouped=False)
    falling = trained(lambda steps: 0.1 / (1 + steps), 0.01, grouped=False)
    plain = trained(lambda _: 0.1, 0.0, grouped=False)
    for key in found:
        same = half if key == "hidden.weight" else plain if "bias" in key else falling
        torch.testing.assert_close(found[key], same[key], rtol=1e-5, atol=1e-6)
        assert not torch.equal(found[key], trained(lambda _: 0.1, 0.01, grouped=False)[key])


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_group_without_a_rate_stays_as_it_is(optimizer: str) -> None:
    learner = Learner(spec(GAME), run_of("Frozen", optimizer))
    before = {name: each.clone() for name, each in learner.state().items()}
    for _ in range(3):
        learner.train(cast("Any", batch()))
    after = learner.state()
    for name in ("hidden.weight", "hidden.bias", "policy.weight", "value.bias"):
        same = torch.equal(before[f"network.{name}"], after[f"network.{name}"])
        assert same == name.startswith("hidden")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_with_groups_resumes_to_the_bit(optimizer: str) -> None:
    run = run_of("Grouped", optimizer)
    straight, before, after = (Learner(spec(GAME), run) for _ in range(3))
    for learner in (straight, before):
        for _ in range(3):
            learner.train(cast("Any", batch()))
    after.restore({name: each.clone() for name, each in before.state().items()}, 3, 96)
    for learner in (straight, after):
        for _ in range(2):
            learner.train(cast("Any", batch()))
    first, second = straight.state(), after.state()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Missing", "policy.weight, policy.bias, value.weight, value.bias are in no group: add a"),
        ("Twice", "policy.bias is in two groups, or twice in one: name it once"),
        ("Foreign", "has a tensor that is not a weight of the network"),
        ("NoGroups", "fails: .*Error"),
        ("Raising", "fails: AttributeError: .*no_such_layer"),
        ("Negative", "learning_rate_factor is -0.5: give a number of at least 0"),
        ("NoDecay", "weight_decay_factor is None: give a number of at least 0"),
    ],
)
def test_a_mistake_in_the_groups_is_named(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}\.parameter_groups.*{reason}"):
        Learner(spec(GAME), run_of(name))


def test_a_schedule_that_goes_wrong_later_is_named() -> None:
    learner = Learner(spec(GAME), run_of("LaterWrong"))
    for _ in range(2):
        learner.train(cast("Any", batch()))
    with pytest.raises(ConfigError, match=r"learning_rate_factor at step 2 is -1.0: give a number"):
        learner.train(cast("Any", batch()))


def test_without_groups_nothing_changes() -> None:
    learner = Learner(spec(GAME), a_run("Small"))
    assert learner._optimizer._rates is None
    assert learner._optimizer._decays is None
