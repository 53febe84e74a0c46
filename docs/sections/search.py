"""docs/guides/search.md: the speed of populations."""

from pathlib import Path

from squad.records import Record
from squad.search import search_record, summary

__all__ = ["population_text"]


def population_text(study_folder: Path, record: Record) -> str:
    """Compare the times of trials trained together and one at a time.

    Args:
        study_folder: Study of SQUAD on Fashion-MNIST.
        record: Record of the benchmark of populations.
    """
    study = search_record.read(study_folder)
    together, alone = record.results["together"], record.results["alone"]
    taken = summary.time_text(study.seconds())
    return (
        f"On one {record.machine['gpu']}, {len(study.measured)} trials of SQUAD 2 x 32 on Fashion-MNIST took {taken} "
        f"([experiments/paper](../../experiments/paper/search.md)). The first {together['trials']} of them, in "
        f"{record.settings['slots']} slots, took {together['seconds_per_trial']:.2f} s each and "
        f"{1000 * together['seconds_per_epoch']:.1f} ms an epoch; {alone['trials']} of these, trained one after the "
        f"other by the same machine in the same run, {alone['seconds_per_trial']:.2f} s and "
        f"{1000 * alone['seconds_per_epoch']:.1f} ms: {record.results['ratio']:.1f} times as long an epoch "
        "([benchmarks/search_population.py](../../benchmarks/search_population.py))."
    )
