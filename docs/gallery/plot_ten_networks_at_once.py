"""Ten networks trained together
=============================

*An ensemble of ten networks is usually better than one. Does it also take ten times as long to train?*

With ``members=10``, SQUAD stacks the weights of ten networks in one tensor: each step is one batched matrix product
instead of ten small ones. The members do not interact, and member i has the seed ``random_state + i``. This example
measures what that saves on this machine, and what the ensemble gains.
"""

# %%
# Data
# ----
# Scikit-learn's handwritten digits: half of them for training, half for the test.

import time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import squad

x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, stratify=y, random_state=0)
settings: dict[str, Any] = {"max_epochs": 12, "device": "cpu"}
_ = squad.SquadClassifier(max_epochs=1, device="cpu").fit(x_train, y_train)  # warm up: imports

# %%
# Train them one after the other, then together
# ---------------------------------------------
# The same ten seeds, rows and numbers of epochs. (Not quite the same split: every single network holds out validation
# rows of its own, while the members of an ensemble share theirs.)

start = time.perf_counter()
singles = [squad.SquadClassifier(random_state=seed, **settings).fit(x_train, y_train) for seed in range(10)]
one_by_one = time.perf_counter() - start

start = time.perf_counter()
ensemble = squad.SquadClassifier(members=10, random_state=0, **settings).fit(x_train, y_train)
together = time.perf_counter() - start

print(f"Ten networks, one after the other: {one_by_one:.1f} s")
print(f"Ten networks together:             {together:.1f} s")
print(f"Ratio:                             {one_by_one / together:.1f}")

# %%
# The ratio depends on the machine, the size of the network and the number of rows: each operation has an overhead,
# which ten members share, and its arithmetic, which they do not.
#
# Is the ensemble better?
# -----------------------
# The ensemble's prediction is the mean of its members' probabilities. Coverage is the fraction of digits that can be
# accepted with a selective risk (the error rate among accepted digits) of at most 1 %, as observed on the test set.
# NLL is the mean negative log-likelihood of the labels, in nats.


def measure(probabilities: np.ndarray) -> dict[str, float]:
    """Return accuracy, NLL and coverage of class probabilities on the test set."""
    confidence, correct = probabilities.max(1), probabilities.argmax(1) == y_test
    return {
        "accuracy": squad.metrics.accuracy(probabilities, y_test),
        "NLL": squad.metrics.nll(probabilities, y_test),
        "coverage at risk 1 %": squad.metrics.coverage_at_risk(confidence, correct, 0.01),
    }


alone = [single.predict_proba(x_test) for single in singles]
rows = [measure(probabilities) for probabilities in alone]
joint = measure(ensemble.predict_proba(x_test))
table = pd.DataFrame(rows)
summary = pd.DataFrame(
    {
        "single: mean": table.mean(),
        "single: worst": [table["accuracy"].min(), table["NLL"].max(), table["coverage at risk 1 %"].min()],
        "single: best": [table["accuracy"].max(), table["NLL"].min(), table["coverage at risk 1 %"].max()],
        "ensemble": pd.Series(joint),
    }
)
print(summary.round(3).to_string())

# %%
# The gain comes from averaging, not from training together. This is the average of the networks that were trained one
# after the other:

print(pd.Series(measure(np.mean(alone, axis=0))).round(3).to_string())

# %%
# Each dot is one of the networks trained one by one (moved sideways only to keep dots apart). If a dot reaches the
# diamond, one single network was as good as the ensemble on this measure. You cannot know beforehand which one, and
# choosing it by its test result would be optimistic. This is one data set with about 900 test rows: look at the
# direction, not at the third digit.

orange, blue, grey = "#D55E00", "#0072B2", "#8C8C8C"
figure, (left, *others) = plt.subplots(1, 4, figsize=(9, 3.6), width_ratios=[1.2, 1, 1, 1], layout="constrained")
bars = left.bar(["one by one", "together"], [one_by_one, together], color=[grey, orange], width=0.6)
left.bar_label(bars, fmt="%.1f s", padding=2)
left.set(ylabel="seconds", xlabel="lower is better", ylim=(0, 1.15 * one_by_one))
left.set_title("training time", fontsize=11)
spread = np.random.default_rng(0).uniform(-0.12, 0.12, len(table))
for axis, name in zip(others, table.columns, strict=True):
    better = "lower" if name == "NLL" else "higher"
    axis.scatter(spread, table[name], s=36, color=blue, alpha=0.7, label="single network")
    axis.scatter(0.5, joint[name], s=110, color=orange, marker="D", label="ensemble")
    axis.set(xlabel=f"{better} is better", xlim=(-0.35, 0.85), xticks=[0, 0.5])
    axis.set_xticklabels(["singles", "ensemble"])
    axis.set_title(name, fontsize=11)
for axis in (left, *others):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to do next
# ---------------
# Five members (``members=5``, or ``--members 5`` for the command) are a good start for a model that will be used.
# Prediction takes time per member, whichever way they were trained. :doc:`Performance </evidence/performance>` has
# measurements on CPUs and GPUs, and :doc:`Prediction and sampling </explanation/sampling>` explains what is averaged.
# Whatever you train, certify it with rows that it has not seen: an ensemble has no guarantee of its own.
