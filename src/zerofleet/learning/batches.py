"""Batches for the next steps, drawn ahead by a thread and copied to the GPU."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zerofleet.learning.measurement import TrainBatch

GPU_DEPTH = 2
"""Batches drawn ahead for a GPU.

On CPUs there is nothing to gain: drawing a batch takes less than a hundredth of a step's time.
"""


class Prefetcher:
    """Draws the batches of the next steps ahead, in the order of the steps.

    A batch depends only on its step and the window. ``discard`` drops the batches that were drawn
    before the window changed. So each step gets the same batch as without a thread.

    Args:
        draw: returns the batch of a step. The thread of the prefetcher calls it, or ``take`` if
            ``depth`` is 0.
        depth: batches to draw ahead; 0: none, and no thread.
        device: a GPU to copy batches to; None: they stay arrays.
    """

    def __init__(
        self, draw: Callable[[int], TrainBatch], depth: int, device: torch.device | None = None
    ) -> None:
        self._draw = draw
        self._depth = depth
        self._changed = threading.Condition()  # guards the attributes below
        self._ready: deque[tuple[int, _Slot | TrainBatch]] = deque()
        self._next: int | None = None  # step of the next draw; None: wait for ``take``
        self._round = 0  # number of ``discard`` calls: a draw of an earlier round is dropped
        self._error: BaseException | None = None
        self._closed = False
        is_gpu = device is not None and device.type == "cuda"
        # One more than ``depth``, because the last step may still read its batch.
        self._free = [_Slot(device) for _ in range(depth + 1)] if is_gpu and device else []
        self._copies = bool(self._free)
        self._taken: _Slot | None = None
        self._thread: threading.Thread | None = None
        if depth:
            self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
            self._thread.start()

    def take(self, step: int) -> TrainBatch | Sequence[Tensor]:
        """Return the batch of a step.

        Returns:
            Arrays, or tensors on the GPU, which the next call may overwrite.

        Raises:
            Exception: the error of ``draw``.
            RuntimeError: ``close`` was called, so no further batch is drawn.
        """
        if self._thread is None:
            return self._draw(step)
        with self._changed:
            self._release()
            next_step = self._ready[0][0] if self._ready else self._next
            if next_step != step:
                self._restart(step)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ready or self._error or self._closed)
            if not self._ready and self._error is not None:
                raise self._error
            if not self._ready:
                raise RuntimeError(f"the batch of step {step} is not drawn: the source is closed")
            batch = self._ready.popleft()[1]
            self._changed.notify_all()
        if not isinstance(batch, _Slot):
            return batch
        self._taken = batch
        return batch.tensors()

    def discard(self) -> None:
        """Drop all batches drawn so far, because the window has changed."""
        with self._changed:
            self._restart(None)

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _release(self) -> None:
        """Free the slot of the last batch, whose step has been launched."""
        if self._taken is not None:
            self._taken.mark_used()
            self._free.append(self._taken)
            self._taken = None

    def _restart(self, step: int | None) -> None:
        self._free += [batch for _, batch in self._ready if isinstance(batch, _Slot)]
        self._ready.clear()
        self._round += 1
        self._next = step

    def _has_room(self) -> bool:
        has_slot = bool(self._free) or not self._copies
        return self._next is not None and len(self._ready) < self._depth and has_slot

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._has_room())
                if self._closed:
                    return
                step, draw_round = self._next, self._round
                assert step is not None
                slot = self._free.pop() if self._copies else None
            try:
                batch = self._draw(step)
                if slot is not None:
                    slot.fill(batch)
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                if draw_round == self._round:
                    self._ready.append((step, slot or batch))
                    self._next = step + 1
                elif slot is not None:
                    self._free.append(slot)
                self._changed.notify_all()


@dataclass(slots=True, eq=False)
class _Buffers:
    """Buffers of one batch size, and the events at which they may be overwritten."""

    pinned: list[Tensor]
    device: list[Tensor]
    copied: torch.cuda.Event
    used: torch.cuda.Event


class _Slot:
    """A batch in pinned memory and its copy on the GPU, which has its own CUDA stream.

    Args:
        device: the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._buffers: _Buffers | None = None

    def fill(self, batch: TrainBatch) -> None:
        """Wait until the slot's last batch is no longer used, then start to copy a batch."""
        columns = [torch.as_tensor(column) for column in batch]
        buffers = self._buffers
        if buffers is None:
            with torch.cuda.stream(self._stream):
                buffers = self._buffers = _Buffers(
                    [torch.empty_like(column, pin_memory=True) for column in columns],
                    [torch.empty_like(column, device=self._device) for column in columns],
                    torch.cuda.Event(),
                    torch.cuda.Event(),
                )
        buffers.copied.synchronize()
        buffers.used.synchronize()
        with torch.cuda.stream(self._stream):
            for column, pinned, on_gpu in zip(columns, buffers.pinned, buffers.device, strict=True):
                on_gpu.copy_(pinned.copy_(column), non_blocking=True)
            buffers.copied.record()

    def tensors(self) -> Sequence[Tensor]:
        """Return the tensors on the GPU; the calling thread's stream waits for the copy."""
        assert self._buffers is not None
        torch.cuda.current_stream().wait_event(self._buffers.copied)
        return self._buffers.device

    def mark_used(self) -> None:
        """Note that all work on the tensors has been launched on the calling thread's stream."""
        assert self._buffers is not None
        self._buffers.used.record()
