"""Time of `import squad` relative to `import torch`, in fresh processes that alternate."""

import subprocess
import sys
from functools import partial

from benchmarks.harness import arguments, in_turns, rows, save

STATEMENTS = {
    "nothing": "pass",
    "torch": "import torch",
    "squad": "import squad",
    "squad.cli": "import squad.cli",
}


def run(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], check=True)


def main() -> None:
    options = arguments(__doc__)
    times = in_turns({name: partial(run, s) for name, s in STATEMENTS.items()}, "cpu", rounds=9, warmup=1)
    extra = times["squad"]["median"] / times["torch"]["median"]
    rows(
        "seconds to import, median (quartiles)",
        ["import", "median", "q25", "q75"],
        [[name, *(f"{t[key]:.3f}" for key in ("median", "q25", "q75"))] for name, t in times.items()],
    )
    print(f"import squad takes {extra:.2f} times as long as import torch")
    save("import_time", options.out, {"rounds": 9}, {"seconds": times, "squad_over_torch": extra})


if __name__ == "__main__":
    main()
