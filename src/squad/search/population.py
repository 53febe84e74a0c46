"""Trials that train together as members of batched models, each with its own schedule.

Trials of one shape (:class:`~squad.search.problem.Shape`) form a group in the slots of one model.  When a trial ends,
its outcome is reported and another trial is requested, which takes a free slot of its group, in place.  Groups do not
wait for each other: an epoch in batches of 32 rows has sixteen times the steps of one in batches of 512.  On a GPU the
epochs of different groups run concurrently, and meanwhile the host reports and requests trials.  The order in which
groups are handled depends on numbers of steps, not on a clock, so that a study is reproducible.
"""

import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from squad.errors import ArgumentError
from squad.search.deferred_interrupts import uninterrupted
from squad.search.problem import Problem, Shape, count_parameters
from squad.search.trial import PRUNING_INTERVAL, Outcome, Source, Trial
from squad.train.slots import DeviceData, Run, Slots, validate

__all__ = ["Population"]

#: Numbers of slots of a model on a GPU; for each of them a graph is captured.
SLOT_COUNTS = (4, 8, 16, 32)
#: The same for large networks, for which an empty slot costs nearly as much as a full one.
LARGE_SLOT_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: GPU memory of a model in multiples of its parameters: with moments, gradients and intermediate results, roughly.
COPIES = 8
#: Number of parameters that a GPU updates in the minimum time of a step.  This and the next are rough: they divide time
#: among groups, and do not affect the outcome of a trial.
PARAMETERS_PER_STEP = 6 << 20
#: Number of rows whose matrix products take as long as updating the parameters.
ROWS_PER_UPDATE = 320
#: Seconds between two requests for trials while other workers have the rest.
IDLE_PAUSE = 1.0


class _Group:
    """Trials of one shape, in one model that is replaced by a larger or smaller one as their number changes."""

    def __init__(self, device_data: DeviceData, shape: Shape, make_room: Callable[[int], None]) -> None:
        self.device_data, self.shape, self.make_room = device_data, shape, make_room
        self.parameters = count_parameters(shape.wide, device_data.x.shape[1], device_data.classes)
        self.made: dict[int, Slots] = {}  # models by number of slots
        self.slots = self._slots(self._size(1, 0))
        self.trials: dict[int, Trial] = {}  # by slot
        self.waiting: list[tuple[Trial, Run]] = []  # until the epoch ends
        self.in_epoch = False  # whether an epoch was launched and is not finished
        self.due = 0.0  # when it is handled next, in units of steps

    def _slots(self, size: int) -> Slots:
        """Return a model with ``size`` slots; on a GPU it is kept for reuse, with its graph."""
        if size in self.made:
            return self.made[size]
        if self.device_data.device.type == "cuda":
            self.make_room(COPIES * self.parameters * size * self.device_data.x.element_size())
        slots = Slots(self.device_data, self.shape.wide, size, self.shape.training)
        if self.device_data.device.type != "cpu":
            self.made[size] = slots
        return slots

    def launch(self) -> None:
        """Launch an epoch of all trials, including waiting ones; do nothing if there are none."""
        count = len(self.trials) + len(self.waiting)
        if not count:
            return
        self._resize(self._size(count, len(self.slots.runs)))
        for (trial, run), slot in zip(self.waiting, self.slots.free, strict=False):
            self.slots.put(slot, run)
            self.trials[slot] = trial
        self.waiting.clear()
        self.slots.launch()
        self.in_epoch = True
        self.due += self.slots.taken * self._cost()

    def _cost(self) -> float:
        """Estimate the time of a step: a constant, plus a part that grows with its rows or parameters."""
        slots, rows = len(self.slots.runs), self.shape.training.batch_size or 0
        if self.shape.large:
            return 1 + slots * self.parameters / PARAMETERS_PER_STEP * (1 + rows / ROWS_PER_UPDATE)
        return 1 + slots * rows / 4096

    def forget(self) -> None:
        """Drop models that are not in use."""
        self.made = {size: slots for size, slots in self.made.items() if slots is self.slots}

    def end(self, slot: int) -> None:
        """Free a slot."""
        self.slots.clear(slot)
        del self.trials[slot]

    def _size(self, count: int, now: int) -> int:
        """Return the number of slots for ``count`` trials, given the present number."""
        return count if self.device_data.device.type == "cpu" else slots_for(count, now, self.shape.large)

    def _resize(self, size: int) -> None:
        if size == len(self.slots.runs):
            return
        before, self.slots = self.slots, self._slots(size)
        moved = {}
        for to, (slot, trial) in enumerate(sorted(self.trials.items())):
            self.slots.adopt(to, before, slot)
            moved[to] = trial
        self.trials = moved


def slots_for(count: int, now: int, large: bool) -> int:
    """Return the number of slots of a model on a GPU.

    Args:
        count: Number of trials.
        now: Present number of slots, which is kept unless it is too small, or many of them would be empty.
        large: Whether empty slots are expensive.
    """
    sizes, slack = (LARGE_SLOT_COUNTS, 2) if large else (SLOT_COUNTS, 4)
    if count <= now < slack * count or now == sizes[0] >= count:
        return now
    return next((size for size in sizes if size >= count), -(-count // sizes[-1]) * sizes[-1])


class Population:
    """Trains trials of a source, a fixed number of them at a time.

    Args:
        problem: Problem of the study.
        source: Where trials come from and outcomes go to.
        slots: Number of trials that train together.
        device: Where to train.
        prune: Whether to prune trials, as the source decides.
    """

    def __init__(
        self, problem: Problem, source: Source, slots: int, device: torch.device | str = "cpu", *, prune: bool = False
    ) -> None:
        self.problem, self.source, self.slots, self.prune = problem, source, slots, prune
        self.device_data = DeviceData(problem.data, device)
        self.groups: dict[Shape, _Group] = {}
        self.ended: list[tuple[Trial, Run | None, str]] = []  # not yet reported
        self.begun: dict[int, float] = {}
        self.epochs = 0
        self.now = 0.0  # due time of the last group that was handled

    @property
    def running(self) -> list[Trial]:
        """Trials without a reported outcome."""
        training = [trial for group in self.groups.values() for trial in group.trials.values()]
        waiting = [trial for group in self.groups.values() for trial, _ in group.waiting]
        ended = [trial for trial, _, _ in self.ended]
        # Each once: an interrupt may come while a trial moves from one list to the next.
        return list({trial.number: trial for trial in (*training, *waiting, *ended)}.values())

    def run(self, stop: Callable[[], bool] = lambda: False, tell: Callable[[], None] = lambda: None) -> None:
        """Train until the source has no more trials, or until ``stop()``; then ``running`` has the unfinished trials.

        Args:
            stop: Called after every epoch of a group.
            tell: Called after every epoch of a group, for progress.
        """
        while not stop():
            launched = [group for group in self.groups.values() if group.in_epoch]
            if launched:
                self._finish(min(launched, key=lambda group: group.due))
            with uninterrupted():
                self._exchange()
            for group in list(self.groups.values()):
                if not group.in_epoch:
                    group.launch()
                    with uninterrupted():  # on a CPU, the whole epoch has passed
                        self.source.beat(self.running)
            if self.device_data.device.type == "cpu":  # nothing worth keeping on a CPU
                self.groups = {shape: group for shape, group in self.groups.items() if group.in_epoch}
            with uninterrupted():
                tell()
                over = not self.running and self.source.over()
            if over:
                return
            if not self.running:
                time.sleep(IDLE_PAUSE)

    def _exchange(self) -> None:
        """Report finished trials, and request as many as there are free slots."""
        while self.ended:
            trial, run, ended = self.ended.pop(0)
            self.source.tell(trial, self._outcome(trial, run, ended))
        while len(self.running) < self.slots:
            new = self.source.ask()
            if new is None:
                break
            self._accept(new)
        self.source.beat(self.running)

    def _accept(self, trial: Trial) -> None:
        """Queue a trial for the next epoch of its group."""
        self.begun[trial.number] = time.monotonic()
        try:
            shape, run = self.problem.run(trial.settings)
        except ArgumentError as error:  # incompatible settings
            self.ended.append((trial, None, f"refused: {error}"))
            return
        if shape not in self.groups:
            self.groups[shape] = _Group(self.device_data, shape, self._make_room)
        group = self.groups[shape]
        if not group.trials and not group.waiting:  # it was idle: without this, it would run alone until it caught up
            group.due = max(group.due, self.now)
        group.waiting.append((trial, run))

    def _make_room(self, needed: int) -> None:
        """Drop models that are kept for reuse, if ``needed`` bytes are not free otherwise."""
        if needed < torch.cuda.mem_get_info(self.device_data.device)[0]:
            return
        torch.cuda.empty_cache()  # returns what is not reserved for graphs
        if needed < torch.cuda.mem_get_info(self.device_data.device)[0]:
            return
        self.groups = {
            shape: group for shape, group in self.groups.items() if group.trials or group.waiting or group.in_epoch
        }
        for group in self.groups.values():
            group.forget()
        gc.collect()
        torch.cuda.empty_cache()

    def _finish(self, group: _Group) -> None:
        """Finish an epoch of a group: evaluate trials on the validation rows, and end those that are done."""
        slots = group.slots
        losses = slots.wait()
        group.in_epoch, self.now = False, group.due
        evaluated = [slot for slot in sorted(group.trials) if self._is_evaluated(slots, slot)]
        results = dict(validate(slots, evaluated, group.shape.sampling, group.shape.num_samples)) if evaluated else {}
        for slot, trial in sorted(group.trials.items()):
            run = slots.runs[slot]
            assert run is not None
            slots.advance(slot, losses[slot], results.get(slot))
            self.epochs += 1
            ended = run.ended
            if ended is None and self._should_prune(trial, run):
                ended = "pruned"
            if ended is not None:
                self.ended.append((trial, run, ended))
                group.end(slot)
        slots.settle()

    def _is_evaluated(self, slots: Slots, slot: int) -> bool:
        run = slots.runs[slot]
        assert run is not None
        return slots.arrived[slot] or (self.prune and (run.epoch + 1) % PRUNING_INTERVAL == 0)

    def _should_prune(self, trial: Trial, run: Run) -> bool:
        if not self.prune or run.epoch % PRUNING_INTERVAL or run.accuracy != run.accuracy:
            return False
        with uninterrupted():
            return self.source.prunes(trial, run.epoch, run.accuracy)

    def _outcome(self, trial: Trial, run: Run | None, ended: str) -> Outcome:
        details: dict[str, Any] = {"seconds": round(time.monotonic() - self.begun.pop(trial.number), 1)}
        value: float | None = self.problem.objective.worst
        if run is not None:
            best = run.state.best_epoch[0]
            details |= {"epochs": run.epoch, "best_epoch": best}
            if run.confidence is not None and run.correct is not None and ended != "diverged":
                value, measured = self.problem.objective.measure(run.confidence, run.correct)
                details |= {**measured, "nll": run.state.best_nll[0]}
            elif ended == "pruned":
                value = None
        return Outcome(value, ended, details)
