"""The default settings as a trial of a search: what ``squad fit`` trains without one, and the baseline of tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from squad.files.plain import plain_json

if TYPE_CHECKING:
    from squad.search.problem import Problem

__all__ = ["Defaults", "default_trial"]


@dataclass(frozen=True)
class Defaults:
    """The trial of the default settings.

    Attributes:
        settings: Default value of each setting in the space, for this network and number of training rows.
        params: Optuna's parameters of the nearest point of the space, from which its sampler learns; empty if the
            defaults lie outside the space.
        outside: Names of the settings whose default lies outside the space.
    """

    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    outside: tuple[str, ...] = ()

    def note(self) -> str | None:
        """Return a note for the user if the defaults lie outside the space, else None."""
        if not self.outside:
            return None
        shown = ", ".join(f"{name} = {self.settings[name]}" for name in self.outside)
        return (
            f"The default settings lie outside the space ({shown}); trial 0 uses them nevertheless. "
            "Pass --no-defaults (defaults=False) to leave them out."
        )


def default_trial(problem: "Problem") -> Defaults:
    """Return the defaults of a problem: what a fit with only its shared settings trains."""
    _, run = problem.run({})
    tables = {"network": run.network, "training": run.config}
    values = {
        name: plain_json(getattr(tables[table], key))
        for name in problem.space.entries
        for table, _, key in [name.partition(".")]
    }
    params, outside = problem.space.nearest(values)
    return Defaults(values, {} if outside else params, tuple(outside))
