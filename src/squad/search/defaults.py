"""The default settings as a trial of a search: what ``squad fit`` would do without one, and what tuning must beat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from squad.search.search_record import plain

if TYPE_CHECKING:
    from squad.search.problem import Problem

__all__ = ["Defaults", "default_trial"]


@dataclass(frozen=True)
class Defaults:
    """The trial of the default settings.

    Attributes:
        settings: the values of the space's settings by default, for this network and so many training rows.
        params: Optuna's parameters of the nearest point of the space, from which its sampler learns; empty if the
            defaults lie outside the space.
        outside: the settings whose default value lies outside.
    """

    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    outside: tuple[str, ...] = ()

    def note(self) -> str | None:
        """What to say where the defaults are no point of the space; None where they are."""
        if not self.outside:
            return None
        shown = ", ".join(f"{name} = {self.settings[name]}" for name in self.outside)
        return (
            f"The default settings lie outside the space ({shown}); they are trial 0 all the same. "
            "Leave them out with --no-defaults (defaults=False)."
        )


def default_trial(problem: "Problem") -> Defaults:
    """The defaults of a problem: what a fit with its shared settings, and nothing else, trains."""
    _, run = problem.run({})
    parts = {"network": run.network, "training": run.config}
    values = {
        name: plain(getattr(parts[table], key))
        for name in problem.space.entries
        for table, _, key in [name.partition(".")]
    }
    params, outside = problem.space.nearest(values)
    return Defaults(values, {} if outside else params, tuple(outside))
