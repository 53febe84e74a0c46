"""The leakage check: which near copies of training rows it detects, and how often it rejects new rows by mistake.

Copies: some of the calibration rows are slightly changed training rows.  How often the set is rejected, or the copies
are excluded, with hashes of exact rows only, and also with the cells of near rows.

Risk: the true risk of what a model with default settings certifies on such rows.

Repeating: the same in tables of integers, where calibration rows also repeat each other: training rows drawn with
replacement, or once each among new rows of which some occur twice.

Honest: new calibration rows, in tables that repeat rows by chance; with all training rows, and with duplicates removed
before fitting.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import arguments, rows, save
from squad.data.chance_repeats import record_repeats
from squad.data.leakage import find_leaked_rows
from squad.data.seen_rows import LeakError, SeenRows, row_hashes
from squad.data.transforms import ArrayTransform
from squad.fitting import fit_predictor
from squad.predictor import Predictor
from squad.predictor.answer import Answer

SEED = 17
#: Rows for fitting, the fraction used for validation, and calibration rows.
FIT, VALIDATION, CALIBRATION = 1000, 0.2, 600
FEATURES, SHARES, RUNS = (1, 2, 3, 5, 20, 300), (1.0, 1 / 3, 0.1), 10
#: A leak counts as detected if the set is rejected, or if this fraction of the copies is excluded.
FOUND = 0.9
#: The guarantee, numbers of features, number of networks, and new rows to measure the true risk.
RISK, DELTA, WIDTHS, SEEDS, NEW = 0.1, 0.05, (2, 20), 2, 5000
#: Number of new calibration sets per table; numbers of rows for fitting and calibration.
SETS, SIZES = 400, ((500, 400),)

Numbers = NDArray[np.float64]
Hashes = NDArray[np.uint64]
Draw = Callable[[np.random.Generator, int], Numbers]


def significant(x: Numbers, digits: int) -> Numbers:
    """Round to ``digits`` significant digits."""
    step = 10.0 ** (np.floor(np.log10(np.abs(x) + 1e-300)) - digits + 1)
    return np.asarray(np.round(x / step) * step)


def noisy(x: Numbers) -> Numbers:
    """Add relative noise of 1e-7."""
    return np.asarray(x * (1 + 1e-7 * np.random.default_rng(SEED).normal(size=x.shape)))


CHANGES: dict[str, Callable[[Numbers], Numbers]] = {
    "none": lambda x: x,
    "float32": lambda x: x.astype(np.float32).astype(np.float64),
    "6 digits (%.6g)": lambda x: significant(x, 6),
    "3 digits": lambda x: significant(x, 3),
    "noise of 1e-7": noisy,
}


def continuous(features: int) -> Draw:
    """Normal features with mean 50 and standard deviation 10."""
    return lambda random, count: 50 + 10 * random.normal(size=(count, features))


class Fitted:
    """What a fitted model stores about its rows, without a network."""

    def __init__(self, x: Numbers) -> None:
        self.transform = ArrayTransform.fit(x, ranges=False)
        encoded = self.transform.apply(x).x
        indices = np.arange(len(x))
        train, validation = np.split(indices, [round((1 - VALIDATION) * len(x))])
        self.seen_rows = SeenRows.of(encoded, (), train, validation)
        self.exact = SeenRows(self.seen_rows.rows, self.seen_rows.groups)
        self.known = record_repeats(row_hashes(encoded), train, validation)

    def keys(self, x: Numbers) -> tuple[Hashes, Hashes]:
        """Return hashes and cells of rows."""
        encoded = self.transform.apply(x).x
        cells = self.seen_rows.cells(encoded)
        assert cells is not None
        return row_hashes(encoded), cells

    def check(self, hashes: Hashes, cells: Hashes, near: bool) -> tuple[bool, NDArray[np.bool_]]:
        """Return whether the rows are rejected, and which rows are excluded."""
        found = find_leaked_rows(
            self.seen_rows if near else self.exact, hashes, cells if near else None, self.known, None
        )
        return found.refusal is not None, found.rows


def power(features: int) -> list[dict[str, Any]]:
    """Return how often copies are detected, for each change and fraction of copies."""
    draw = continuous(features)
    found: dict[tuple[str, float], dict[bool, list[bool]]] = {}
    for run in range(RUNS):
        random = np.random.default_rng([SEED, features, run])
        x, new = draw(random, FIT), draw(random, CALIBRATION)
        fitted = Fitted(x)
        fresh = fitted.keys(new)
        for name, change in CHANGES.items():
            copies = fitted.keys(change(x[:CALIBRATION]))
            for share in SHARES:
                count = round(share * CALIBRATION)
                hashes = np.r_[copies[0][:count], fresh[0][count:]]
                cells = np.c_[copies[1][:, :count], fresh[1][:, count:]]
                for near in (False, True):
                    refused, dropped = fitted.check(hashes, cells, near)
                    good = bool(refused or dropped[:count].mean() >= FOUND)
                    found.setdefault((name, share), {False: [], True: []})[near].append(good)
    return [
        {
            "features": features,
            "change": name,
            "share": share,
            "before": float(np.mean(each[False])),
            "after": float(np.mean(each[True])),
        }
        for (name, share), each in found.items()
    ]


def repeating(name: str, share: float, doubled: int) -> dict[str, Any]:
    """Return how often copies are detected among rows that repeat each other."""
    found: dict[bool, list[bool]] = {False: [], True: []}
    for run in range(RUNS):
        random = np.random.default_rng([SEED, doubled, run])
        x, new = TABLES[name](random, FIT), TABLES[name](random, CALIBRATION)
        fitted, count = Fitted(x), round(share * CALIBRATION)
        copies = x[random.choice(FIT, count, replace=not doubled)]
        keys = fitted.keys(np.r_[copies, new[count:], new[count : count + doubled]])
        for near in (False, True):
            refused, dropped = fitted.check(*keys, near)
            found[near].append(bool(refused or dropped[:count].mean() >= FOUND))
    both = {"before": float(np.mean(found[False])), "after": float(np.mean(found[True]))}
    return {"table": name, "share": share, "doubled": doubled, **both}


def labelled_rows(features: int, count: int, seed: int) -> tuple[Numbers, NDArray[Any]]:
    """Draw rows with labels, about a fifth of them flipped."""
    random = np.random.default_rng([SEED, features, seed])
    x = continuous(features)(random, count)
    signal = (x[:, : min(3, features)] - 50).sum(1) / (10 * np.sqrt(min(3, features)))
    return x, np.where(signal + 0.7 * random.normal(size=count) > 0, "a", "b")


def certified(predictor: Predictor, x: Numbers, y: NDArray[Any], new: Answer, wrong: NDArray[np.bool_]) -> float | None:
    """Return the true risk of the certified rule, or None; ``new`` are the predictions for new rows."""
    try:
        certificate = predictor.certify(x, y, RISK, DELTA).certificate
    except LeakError:
        return None
    assert certificate is not None
    accepted = certificate.accepts(new.confidence) & ~new.novel
    return float(wrong[accepted].mean()) if accepted.any() else None


def risks(features: int) -> list[dict[str, Any]]:
    """Return the true risks of networks certified on copies of their training rows."""
    found: dict[tuple[str, float], list[tuple[float | None, float | None]]] = {}
    for seed in range(SEEDS):
        x, y = labelled_rows(features, FIT, seed)
        other, new = labelled_rows(features, FIT, 100 + seed), labelled_rows(features, NEW, 200 + seed)
        predictor = fit_predictor(x, y)
        answer = predictor.answer(new[0])
        wrong = answer.label != new[1]
        assert predictor.seen_rows is not None
        blind = predictor._replace(seen_rows=SeenRows(predictor.seen_rows.rows, predictor.seen_rows.groups))
        for name, change in CHANGES.items():
            for share in SHARES[:2]:
                count = round(share * FIT)
                taken = np.r_[change(x[:count]), other[0][count:]], np.r_[y[:count], other[1][count:]]
                pair = certified(blind, *taken, answer, wrong), certified(predictor, *taken, answer, wrong)
                found.setdefault((name, share), []).append(pair)
    return [
        {
            "features": features,
            "change": name,
            "share": share,
            "before": [pair[0] for pair in pairs],
            "after": [pair[1] for pair in pairs],
        }
        for (name, share), pairs in found.items()
    ]


def whole_numbers(kinds: int, columns: int, power: float = 0.0) -> Draw:
    """Columns of integers, small ones more frequent if ``power`` > 0."""
    weights = np.arange(1, kinds + 1.0) ** -power
    weights /= weights.sum()
    return lambda random, count: random.choice(kinds, size=(count, columns), p=weights).astype(np.float64)


def categories(columns: int, kinds: int) -> Draw:
    """One-hot encoded categories."""
    numbers = whole_numbers(kinds, columns, 1.0)
    return lambda random, count: np.eye(kinds)[numbers(random, count).astype(np.int64)].reshape(count, -1)


def kinds_of_rows(kinds: int, features: int) -> Draw:
    """Few distinct rows of dependent features, some more frequent than others."""
    every = np.random.default_rng(SEED).integers(2, size=(kinds, features)).astype(np.float64)
    weights = np.arange(1, kinds + 1.0) ** -0.7
    weights /= weights.sum()
    return lambda random, count: every[random.choice(kinds, size=count, p=weights)]


def decimals(columns: int, places: int) -> Draw:
    """Numbers with ``places`` decimals."""
    return lambda random, count: np.round(random.normal(size=(count, columns)), places)


def mixed(random: np.random.Generator, count: int) -> Numbers:
    """Three columns with few values, and a continuous one."""
    return np.asarray(np.c_[random.integers(3, size=(count, 3)), random.normal(size=(count, 1))])


def many_zeros(random: np.random.Generator, count: int) -> Numbers:
    """Six columns that are mostly 0, and otherwise continuous."""
    return np.asarray(random.random((count, 6)) * (random.random((count, 6)) < 0.2))


def prices(random: np.random.Generator, count: int) -> Numbers:
    """Log-normal prices, rounded to cents."""
    return np.asarray(np.round(random.lognormal(3, 0.7, (count, 1)), 2))


def continuous_kinds(kinds: int, share: float) -> Draw:
    """A fraction ``share`` of the rows are among ``kinds`` distinct rows; all others are new."""
    every = np.random.default_rng(SEED).normal(size=(kinds, 4))

    def draw(random: np.random.Generator, count: int) -> Numbers:
        known = every[random.integers(kinds, size=count)]
        return np.where(random.random((count, 1)) < share, known, random.normal(size=(count, 4)))

    return draw


#: Tables in which rows hardly ever repeat by chance, although columns may have few values.
RARELY_REPEATING = ("20 columns of yes and no", "6 columns of 20 whole numbers", "5 continuous columns")

TABLES: dict[str, Draw] = {
    "3 columns of 4 whole numbers": whole_numbers(4, 3),
    "3 columns of 10 whole numbers": whole_numbers(10, 3),
    "6 columns of 5 whole numbers, small ones more frequent": whole_numbers(5, 6, 0.7),
    "1 column of 1,000 whole numbers": whole_numbers(1000, 1),
    "20 columns of yes and no": whole_numbers(2, 20),
    "5 columns of 4 categories": categories(5, 4),
    "2,000 kinds of rows": kinds_of_rows(2000, 20),
    "3 columns with 1 decimal": decimals(3, 1),
    "2 columns with 2 decimals": decimals(2, 2),
    "3 columns of few values, 1 continuous": mixed,
    "6 columns that are mostly 0": many_zeros,
    "6 columns of 20 whole numbers": whole_numbers(20, 6),
    "1 column of prices with cents": prices,
    "500 kinds of continuous rows": continuous_kinds(500, 1.0),
    "1 in 10 rows of 200 continuous kinds": continuous_kinds(200, 0.1),
    "1 continuous column": continuous(1),
    "5 continuous columns": continuous(5),
}


def honest(name: str, sizes: tuple[int, int], distinct: bool) -> dict[str, Any]:
    """Return how many new sets are rejected, and how many rows are excluded from the others."""
    refused, dropped = {False: 0, True: 0}, {False: 0.0, True: 0.0}
    for run in range(SETS):
        random = np.random.default_rng([SEED, list(TABLES).index(name), *sizes, distinct, run])
        x, new = (TABLES[name](random, size) for size in sizes)
        fitted = Fitted(random.permutation(np.unique(x, axis=0)) if distinct else x)
        keys = fitted.keys(new)
        for near in (False, True):
            rejected, excluded = fitted.check(*keys, near)
            refused[near] += rejected
            dropped[near] += 0 if rejected else float(excluded.mean())
    return {
        "table": name,
        "sizes": sizes,
        "distinct": distinct,
        "before": refused[False] / SETS,
        "after": refused[True] / SETS,
        "left out before": dropped[False] / max(SETS - refused[False], 1),
        "left out after": dropped[True] / max(SETS - refused[True], 1),
    }


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def main() -> None:
    options = arguments(__doc__)
    copies = [one for features in FEATURES for one in power(features)]
    rows(
        "Sets with copies that are detected, in %",
        ["features", "change", "share", "before", "after"],
        [
            [str(c["features"]), c["change"], f"{c['share']:.2f}", _percent(c["before"]), _percent(c["after"])]
            for c in copies
        ],
    )
    true = [one for features in WIDTHS for one in risks(features)]
    rows(
        "True risks of certified rules",
        ["features", "change", "share", "before", "after"],
        [[str(t["features"]), t["change"], f"{t['share']:.2f}", str(t["before"]), str(t["after"])] for t in true],
    )
    tables = [honest(name, sizes, distinct) for distinct in (False, True) for name in TABLES for sizes in SIZES]
    rows(
        "New sets that are rejected, in %; and rows excluded",
        ["table", "sizes", "distinct", "before", "after", "out before", "out after"],
        [
            [
                t["table"],
                str(t["sizes"]),
                str(t["distinct"]),
                *(_percent(t[key]) for key in ("before", "after", "left out before", "left out after")),
            ]
            for t in tables
        ],
    )
    settings = {"risk": RISK, "delta": DELTA, "fit": FIT, "calibration": CALIBRATION, "runs": RUNS, "sets": SETS}
    again = [
        repeating(name, share, doubled)
        for name in RARELY_REPEATING
        for share in (1 / 3, 0.95)
        for doubled in (0, 8, 30)  # 0: drawn with replacement
    ]
    rows(
        "Sets with copies that are detected among rows that repeat each other, in %",
        ["table", "share", "doubled", "before", "after"],
        [
            [a["table"], f"{a['share']:.2f}", str(a["doubled"]), _percent(a["before"]), _percent(a["after"])]
            for a in again
        ],
    )
    results = {"copies": copies, "risks": true, "honest": tables, "repeating": again}
    save("leakage", options.out, settings, results, SEED)


if __name__ == "__main__":
    main()
