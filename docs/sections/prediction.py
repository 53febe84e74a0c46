"""docs/explanation/sampling.md: the table of sampling modes."""

from docs.sections.markdown import table
from squad.records import Record

__all__ = ["sampling_table"]


def sampling_table(gpu: Record, cpu: Record) -> str:
    """Compare the sampling modes: quality of the ten networks trained on the GPU, time on both machines."""
    risks = (0.005, 0.01, 0.02)
    heads = ["sampling", "T", "accuracy", "NLL", "AURC x 1000", *(f"coverage at {100 * r:g} %" for r in risks)]
    times = {(mode["sampling"], mode["samples"]): mode["seconds"]["median"] for mode in cpu.results["ways"]}
    lines = [[*heads, "two CPU cores, ms", "GPU, ms"]]
    for mode in gpu.results["ways"]:
        networks = mode["each"]
        lines.append(
            [
                mode["sampling"],
                str(mode["samples"]),
                f"{100 * networks['accuracy']['mean']:.2f} %",
                f"{networks['nll']['mean']:.3f}",
                f"{1000 * networks['aurc']['mean']:.2f} ± {1000 * networks['aurc']['std']:.2f}",
                *(f"{100 * networks[f'coverage@{risk}']['mean']:.1f} %" for risk in risks),
                f"{1000 * times[mode['sampling'], mode['samples']]:.0f}",
                f"{1000 * mode['seconds']['median'] / gpu.settings['members']:.1f}",
            ]
        )
    return table(lines)
