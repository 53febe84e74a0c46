"""Trials that train together as members of batched models, each on its own clock.

Trials of one shape (:class:`~squad.search.problem.Shape`) are a group, in the slots of one model.  When one ends, it is
told and another asked for, which takes a free slot of its own group, in place.  Groups do not wait for each other: an
epoch in batches of 32 rows has sixteen times the steps of one in batches of 512.  On a GPU their epochs run side by
side, and while they run the host tells and asks.  Whose epoch is looked at next goes by the number of steps, not by a
clock, so that a study is the same every time.
"""

import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from squad.errors import ArgumentError
from squad.search.deferred_interrupts import uninterrupted
from squad.search.problem import Problem, Shape, count_numbers
from squad.search.trial import LOOKS, Outcome, Source, Trial
from squad.train.slots import DeviceData, Run, Slots, examine

__all__ = ["Population"]

#: Slots of a model on a GPU, where each number of them is a captured graph of its own.
SIZES = (4, 8, 16, 32)
#: The same of large networks, for which empty slots cost nearly what full ones do.
CLOSE_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: How often a model's parameters stand in a GPU's memory, roughly: with moments, gradients and what a step makes.
COPIES = 8
#: Numbers that a GPU moves, with gradients and moments, in the time that a step takes however small it is.  This and
#: the next are rough: they share out turns among groups, and what a trial comes to does not depend on them.
MOVED = 6 << 20
#: Rows whose products take as long as that moving.
PRODUCTS = 320
#: Seconds between two questions whether others have left something to do.
PAUSE = 1.0


class _Group:
    """The trials of one shape: in one model, which is exchanged for a larger or smaller one as their number changes."""

    def __init__(self, place: DeviceData, shape: Shape, make_room: Callable[[int], None]) -> None:
        self.place, self.shape, self.make_room = place, shape, make_room
        self.numbers = count_numbers(shape.wide, place.x.shape[1], place.classes)
        self.made: dict[int, Slots] = {}
        self.slots = self._of(self._size(1, 0))
        self.trials: dict[int, Trial] = {}  # by their slots
        self.waiting: list[tuple[Trial, Run]] = []  # for the epoch to end
        self.flying = False  # whether an epoch has begun and was not looked at
        self.due = 0.0  # when it is its turn, in steps

    def _of(self, size: int) -> Slots:
        """Slots of this size; on a GPU they are kept, with their graph."""
        if size in self.made:
            return self.made[size]
        if self.place.device.type == "cuda":
            self.make_room(COPIES * self.numbers * size * self.place.x.element_size())
        slots = Slots(self.place, self.shape.wide, size, self.shape.training)
        if self.place.device.type != "cpu":
            self.made[size] = slots
        return slots

    def launch(self) -> None:
        """Begin an epoch of all that are here, those that waited among them; of none if there are none."""
        count = len(self.trials) + len(self.waiting)
        if not count:
            return
        self._resize(self._size(count, len(self.slots.runs)))
        for (trial, run), slot in zip(self.waiting, self.slots.free, strict=False):
            self.slots.put(slot, run)
            self.trials[slot] = trial
        self.waiting.clear()
        self.slots.launch()
        self.flying = True
        self.due += self.slots.taken * self._cost()

    def _cost(self) -> float:
        """What a step takes, roughly: some time however small it is; beyond that its rows, or its weights, count."""
        slots, rows = len(self.slots.runs), self.shape.training.batch_size or 0
        if self.shape.large:
            return 1 + slots * self.numbers / MOVED * (1 + rows / PRODUCTS)
        return 1 + slots * rows / 4096

    def forget(self) -> None:
        """Let go of models that nothing is trained in."""
        self.made = {size: slots for size, slots in self.made.items() if slots is self.slots}

    def end(self, slot: int) -> None:
        """Free a slot."""
        self.slots.clear(slot)
        del self.trials[slot]

    def _size(self, count: int, now: int) -> int:
        return count if self.place.device.type == "cpu" else slots_for(count, now, self.shape.large)

    def _resize(self, size: int) -> None:
        if size == len(self.slots.runs):
            return
        before, self.slots = self.slots, self._of(size)
        moved = {}
        for to, (slot, trial) in enumerate(sorted(self.trials.items())):
            self.slots.adopt(to, before, slot)
            moved[to] = trial
        self.trials = moved


def slots_for(count: int, now: int, large: bool) -> int:
    """How many slots a model on a GPU is to have.

    Args:
        count: of trials.
        now: slots that there are: kept unless they are too few, or many of them empty and computed all the same.
        large: whether that costs much.
    """
    sizes, slack = (CLOSE_SIZES, 2) if large else (SIZES, 4)
    if count <= now < slack * count or now == sizes[0] >= count:
        return now
    return next((size for size in sizes if size >= count), -(-count // sizes[-1]) * sizes[-1])


class Population:
    """So many trials at once, of a source that never runs dry but at its end.

    Args:
        problem: what is searched.
        source: where trials come from, and outcomes go to.
        slots: how many train at once.
        device: where.
        prune: whether the source is asked which trials are not worth going on with.
    """

    def __init__(
        self, problem: Problem, source: Source, slots: int, device: torch.device | str = "cpu", *, prune: bool = False
    ) -> None:
        self.problem, self.source, self.slots, self.prune = problem, source, slots, prune
        self.place = DeviceData(problem.data, device)
        self.groups: dict[Shape, _Group] = {}
        self.ended: list[tuple[Trial, Run | None, str]] = []  # not yet told
        self.begun: dict[int, float] = {}
        self.epochs = 0
        self.now = 0.0  # when the last group that was looked at was due

    @property
    def running(self) -> list[Trial]:
        """Trials that were asked for and have no outcome yet."""
        held = [trial for group in self.groups.values() for trial in group.trials.values()]
        waiting = [trial for group in self.groups.values() for trial, _ in group.waiting]
        ended = [trial for trial, _, _ in self.ended]
        # Once each: an interrupt may come while one passes from one list to the next.
        return list({trial.number: trial for trial in (*held, *waiting, *ended)}.values())

    def run(self, stop: Callable[[], bool] = lambda: False, tell: Callable[[], None] = lambda: None) -> None:
        """Train until the source is over, or ``stop`` says so; then ``running`` are those without an outcome.

        Args:
            stop: asked after every epoch of a group.
            tell: called after every epoch of a group, for progress.
        """
        while not stop():
            flying = [group for group in self.groups.values() if group.flying]
            if flying:
                self._finish(min(flying, key=lambda group: group.due))
            with uninterrupted():
                self._exchange()
            for group in list(self.groups.values()):
                if not group.flying:
                    group.launch()
                    with uninterrupted():  # on a CPU that was a whole epoch
                        self.source.beat(self.running)
            if self.place.device.type == "cpu":  # nothing is kept there that would be worth it
                self.groups = {shape: group for shape, group in self.groups.items() if group.flying}
            with uninterrupted():
                tell()
                over = not self.running and self.source.over()
            if over:
                return
            if not self.running:
                time.sleep(PAUSE)

    def _exchange(self) -> None:
        """Tell what has ended, and ask for as many trials as there is room for."""
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
        """Let a trial wait for its group."""
        self.begun[trial.number] = time.monotonic()
        try:
            shape, run = self.problem.run(trial.settings)
        except ArgumentError as error:  # settings that do not go together
            self.ended.append((trial, None, f"refused: {error}"))
            return
        if shape not in self.groups:
            self.groups[shape] = _Group(self.place, shape, self._make_room)
        group = self.groups[shape]
        if not group.trials and not group.waiting:  # it has slept, and is not to have all turns until it has caught up
            group.due = max(group.due, self.now)
        group.waiting.append((trial, run))

    def _make_room(self, needed: int) -> None:
        """Let go of models that are kept for later, if so many bytes would not fit beside them."""
        if needed < torch.cuda.mem_get_info(self.place.device)[0]:
            return
        torch.cuda.empty_cache()  # what is kept for graphs stays, and nobody else could take it
        if needed < torch.cuda.mem_get_info(self.place.device)[0]:
            return
        self.groups = {
            shape: group for shape, group in self.groups.items() if group.trials or group.waiting or group.flying
        }
        for group in self.groups.values():
            group.forget()
        gc.collect()
        torch.cuda.empty_cache()

    def _finish(self, group: _Group) -> None:
        """The end of a group's epoch: look at the validation rows, and see who has ended."""
        slots = group.slots
        losses = slots.wait()
        group.flying, self.now = False, group.due
        chosen = [slot for slot in sorted(group.trials) if self._is_due(slots, slot)]
        examined = dict(examine(slots, chosen, group.shape.sampling, group.shape.num_samples)) if chosen else {}
        for slot, trial in sorted(group.trials.items()):
            run = slots.runs[slot]
            assert run is not None
            slots.advance(slot, losses[slot], examined.get(slot))
            self.epochs += 1
            ended = run.ended
            if ended is None and self._pruned(trial, run):
                ended = "pruned"
            if ended is not None:
                self.ended.append((trial, run, ended))
                group.end(slot)
        slots.settle()

    def _is_due(self, slots: Slots, slot: int) -> bool:
        run = slots.runs[slot]
        assert run is not None
        return slots.arrived[slot] or (self.prune and (run.epoch + 1) % LOOKS == 0)

    def _pruned(self, trial: Trial, run: Run) -> bool:
        if not self.prune or run.epoch % LOOKS or run.accuracy != run.accuracy:
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
