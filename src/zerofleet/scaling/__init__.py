"""How many self-play workers and inference replicas are useful now, and why.

The trainer is the demand: it could draw so many samples a second, and each position may be drawn a
certain number of times. Self-play is the supply. Whether more workers would bring more is for
inference to say: how full its batches are, how long requests wait, how much it could do.
CPUs and GPUs are no signal: self-play's CPUs are always busy, and so is a GPU with batches of one.

``Fleet`` is what heartbeats say, ``Need`` what follows from it, ``Rule`` what is asked for: the
same in the autoscaler, in ``zerofleet status`` and in ``bench.scale_sim``.
"""

from zerofleet.scaling.advice import Advice, advise
from zerofleet.scaling.fleet import Fleet, mean, observe
from zerofleet.scaling.need import Need, need_of
from zerofleet.scaling.reason import Answer, Reason
from zerofleet.scaling.rule import Answers, Rule

__all__ = [
    "Advice",
    "Answer",
    "Answers",
    "Fleet",
    "Need",
    "Reason",
    "Rule",
    "advise",
    "mean",
    "need_of",
    "observe",
]
