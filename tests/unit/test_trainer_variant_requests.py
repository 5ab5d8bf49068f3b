"""The learner's options: averaged weights, fewer bits, memory layouts, compilation."""

import ctypes
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from zerofleet.config import NetworkSection, RunConfig, run_from_values
from zerofleet.games import spec
from zerofleet.learning import LossScale
from zerofleet.learning.learner import Learner, Precision
from zerofleet.learning.measurement import Batch, TracedBatch

SPEC = spec("tic_tac_toe")
CPU = torch.device("cpu")
AVERAGED = {"average_decay": 0.75, "average_every_steps": 2}


# In a process of its own: where there are holes in the heap already, blocks go there.
KEPT_BLOCKS = """
import ctypes, mmap
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
SIZE = 16 << 20
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def is_mapped(address):
    place = ctypes.c_void_p(address // mmap.PAGESIZE * mmap.PAGESIZE)
    return libc.mincore(place, ctypes.c_size_t(mmap.PAGESIZE), ctypes.create_string_buffer(1)) == 0

def kept():
    blocks = [libc.malloc(ctypes.c_size_t(SIZE)) for _ in range(8)]
    for block in blocks:
        libc.free(ctypes.c_void_p(block))
    return sum(is_mapped(block + SIZE // 2) for block in blocks)

for threshold in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
    assert libc.mallopt(threshold, 128 << 10)
before = kept()

from zerofleet.learning.learner import Learner
from zerofleet.config import run_from_values
from zerofleet.games import spec

Learner(spec("tic_tac_toe"), run_from_values({"name": "r", "game": {"name": "tic_tac_toe"}}))
print(f"{before} of 8, then {kept()} of 8")
"""


def a_run(**trainer: Any) -> RunConfig:
    return run_from_values({
        "name": "learner",
        "preset": "plain",
        "game": {"name": "tic_tac_toe"},
        "network": {"blocks": 3, "channels": 8, "global_pooling": True},
        "trainer": {"batch_size": 32, **trainer},
    })  # fmt: skip


def batch(seed: int, size: int = 32) -> Batch:
    generator = np.random.default_rng(seed)
    visits = generator.random((size, 9), np.float32)
    return (
        generator.integers(0, 256, (size, SPEC.observation_bytes), np.uint8),
        visits / visits.sum(1, keepdims=True),
        generator.integers(-1, 2, size).astype(np.float32),
    )


def traced(seed: int) -> TracedBatch:
    zeros = np.zeros(32, np.int32)
    drawn = batch(seed)
    return TracedBatch(drawn, zeros, zeros + 9, zeros.astype(np.int64), drawn[2])


def trained(steps: int, **trainer: Any) -> Learner:
    learner = Learner(SPEC, a_run(**trainer))
    for step in range(steps):
        learner.train(batch(step))
    return learner


def state(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.state().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_the_average_is_that_of_the_snapshots() -> None:
    """Weights and running figures: the mean of the first four, then exponential."""
    snapshots = [trained(steps).network.state_dict() for steps in (2, 4, 6, 8, 10)]
    for steps, shares in (
        (3, (1.0,)),
        (7, (1 / 3, 1 / 3, 1 / 3)),
        (11, (3 / 16, 3 / 16, 3 / 16, 3 / 16, 1 / 4)),
    ):
        average = trained(steps, **AVERAGED).published.state_dict()
        for name, found in average.items():
            taken = [snapshot[name] for snapshot in snapshots[: len(shares)]]
            if found.is_floating_point():
                parts = [share * each for share, each in zip(shares, taken, strict=True)]
                torch.testing.assert_close(found, torch.stack(parts).sum(0))
            else:
                assert torch.equal(found, taken[-1]), name


def test_before_the_first_snapshot_the_network_itself_is_published() -> None:
    learner = trained(1, **AVERAGED)
    untouched = Learner(SPEC, a_run())
    assert same(learner.published.state_dict(), learner.network.state_dict())
    assert not same(learner.published.state_dict(), untouched.network.state_dict())


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
@pytest.mark.slow
def test_the_process_keeps_the_memory_that_it_frees() -> None:
    """Compared with glibc's own thresholds, which give each of these blocks back to the kernel."""
    done = subprocess.run([sys.executable, "-c", KEPT_BLOCKS], capture_output=True, text=True)
    assert done.stdout == "0 of 8, then 8 of 8\n", done.stderr


def test_averaging_does_not_touch_what_is_trained() -> None:
    plain, averaged = trained(5), trained(5, **AVERAGED)
    assert same(plain.network.state_dict(), averaged.network.state_dict())
    assert averaged.network.training
    assert not averaged.published.training


def test_what_is_measured_is_what_is_published() -> None:
    learner = trained(6, **AVERAGED)
    reference = Learner(SPEC, a_run())
    reference.network.load_state_dict(learner.published.state_dict())
    assert learner.measure(traced(9)) == reference.measure(traced(9))
    assert learner.measure(traced(9)) != trained(6).measure(traced(9))


@pytest.mark.parametrize(
    "options",
    [AVERAGED, {"mixed_precision": "bf16"}, {"mixed_precision": "fp16"}],
    ids=str,
)
def test_resumed_to_the_bit(options: dict[str, Any]) -> None:
    straight, before = trained(7, **options), trained(3, **options)
    after = Learner(SPEC, a_run(**options))
    after.restore(state(before), before.step, before.samples)
    assert same(state(before), state(after))
    for step in range(3, 7):
        after.train(batch(step))
    assert same(state(straight), state(after))


def test_a_checkpoint_from_before_averaging_was_switched_on() -> None:
    before = trained(3)
    after = Learner(SPEC, a_run(**AVERAGED))
    after.restore(state(before), before.step, before.samples)
    assert same(after.published.state_dict(), before.network.state_dict())
    back = Learner(SPEC, a_run())
    back.restore(state(after), 3, 96)
    assert same(state(back), state(before))


@pytest.mark.parametrize("bits", ["bf16", "fp16"])
def test_fewer_bits_learn_much_the_same(bits: str) -> None:
    full, half = trained(10), trained(10, mixed_precision=bits)
    assert all(parameter.dtype is torch.float32 for parameter in half.network.parameters())
    first, second = full.measure(traced(50)), half.measure(traced(50))
    assert first.policy_loss != second.policy_loss
    assert first.policy_loss == pytest.approx(second.policy_loss, abs=0.05)
    assert first.value_loss == pytest.approx(second.value_loss, abs=0.05)


@pytest.mark.parametrize("instructions", ["avx512_bf16", "amx_bf16", "avx512_f"])
def test_cpus_train_in_bf16_where_they_have_it_and_gain_by_it(
    instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {instructions: True})
    gains = torch.bfloat16 if "bf16" in instructions else None
    assert Precision("auto", CPU, 32).dtype is gains
    assert Precision("auto", CPU, 16).dtype is None
    assert Precision("off", CPU, 64).dtype is None
    assert Precision("bf16", CPU, 16).dtype is torch.bfloat16
    assert Precision("bf16", CPU, 16).loss_scale is None
    assert Precision("fp16", CPU, 16).loss_scale is not None


def test_a_gradient_that_overflows_changes_no_weight() -> None:
    learner = trained(2, mixed_precision="fp16")
    scale = learner._precision.loss_scale
    assert scale is not None
    scale.scale.fill_(2.0**120)
    before = [parameter.detach().clone() for parameter in learner.network.parameters()]
    learner.train(batch(2))
    after = list(learner.network.parameters())
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    assert scale.scale == 2.0**119
    scale.scale.fill_(2.0**10)
    learner.train(batch(3))
    assert not all(torch.equal(*p) for p in zip(before, learner.network.parameters(), strict=True))


def test_the_loss_scale_grows_after_many_clean_steps() -> None:
    scale = LossScale()
    gradient = torch.tensor([2.0**16, -(2.0**17)])
    assert scale.unscale(gradient)
    assert gradient.tolist() == [1.0, -2.0]
    for _ in range(1_999):
        assert scale.unscale(torch.ones(1))
    assert scale.scale == 2.0**17
    assert not scale.unscale(torch.tensor([1.0, float("inf")]))
    assert not scale.unscale(torch.tensor([float("nan")]))
    assert scale.scale == 2.0**15
    again = LossScale()
    again.restore(scale.state())
    assert (again.scale, again.clean_steps) == (scale.scale, scale.clean_steps)


def test_the_memory_layout_is_channels_last() -> None:
    weight = trained(1).network.get_parameter("tower.1.second.weight")
    assert weight.is_contiguous(memory_format=torch.channels_last)
    assert not weight.is_contiguous()


def test_gradient_norm_is_that_of_the_data_terms() -> None:
    learner = Learner(SPEC, a_run(l2=5.0))
    assert learner.gradient_norm is None
    reference = Learner(SPEC, a_run(l2=0.0, learning_rate=[1.0]))
    before = [parameter.detach().clone() for parameter in reference.network.parameters()]
    for each in (learner, reference):
        each.train(batch(0))
    moved = sum(
        float((after.detach() - weight).square().sum())
        for weight, after in zip(before, reference.network.parameters(), strict=True)
    )
    assert learner.gradient_norm == pytest.approx(moved**0.5, rel=1e-3)


@pytest.mark.fleet  # tracing takes ten seconds
def test_the_compiled_network_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the back end that generates no code, so that no compiler has to run."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    small = {"network": NetworkSection(blocks=0, channels=4)}
    plain = Learner(SPEC, a_run().model_copy(update=small))
    compiled = Learner(SPEC, a_run(compile=True).model_copy(update=small))
    for step in range(3):
        plain.train(batch(step))
        compiled.train(batch(step))
    for name, tensor in plain.network.state_dict().items():
        torch.testing.assert_close(
            compiled.network.state_dict()[name], tensor, rtol=1e-3, atol=1e-4, msg=name
        )
    assert compiled.state().keys() == plain.state().keys()
