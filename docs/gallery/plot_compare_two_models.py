"""Comparing two models on the same rows
=====================================

*Two models, one test set: one of them is a bit better. Does the difference mean anything?*

We compare a SQUAD network with a random forest, as models that may abstain: not only by accuracy, but by how well their
confidence ranks right above wrong predictions. Both predict the same rows, so the comparison is *paired*: a difficult
row is difficult for both, and most of its luck cancels in the difference.
"""

# %%
# Two models
# ----------
# A simulated table with label noise, so that no model can be perfect. It is one table, with one seed: which model wins
# here says nothing about yours. Always include a forest or gradient boosting in such a comparison.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import squad
from squad.metrics import aurc, bootstrap, coverage_at_risk

x, y = make_classification(
    3000, 12, n_informative=8, n_classes=3, n_clusters_per_class=2, class_sep=1.6, flip_y=0.03, random_state=1
)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.6, random_state=0)
models = {
    "SQUAD": squad.SquadClassifier(members=3, max_epochs=25, device="cpu", random_state=0),
    "random forest": RandomForestClassifier(300, random_state=0),
}
confidence, correct = {}, {}
for name, model in models.items():
    probabilities = model.fit(x_train, y_train).predict_proba(x_test)
    confidence[name] = probabilities.max(1)
    correct[name] = probabilities.argmax(1) == y_test
first, second = models

# %%
# Each model with its own interval
# --------------------------------
# AURC is the area under the risk–coverage curve: the mean selective risk (error rate among accepted rows) over all
# coverages (fractions of rows accepted); lower is better. In brackets are 95 % intervals. If two of them overlap, this
# does *not* show that the models are equal: each interval includes the luck of the rows, which both models share.

for name in models:
    print(f"{name:14} accuracy {correct[name].mean():.3f}   AURC {bootstrap(aurc, confidence[name], correct[name])}")

# %%
# The difference, with a paired interval
# --------------------------------------
# Resample rows, keep both models' predictions of a row together, and compute the difference each time.


def aurc_difference(c1: np.ndarray, r1: np.ndarray, c2: np.ndarray, r2: np.ndarray) -> float:
    """Return AURC of the first minus AURC of the second model."""
    return aurc(c1, r1) - aurc(c2, r2)


def coverage_difference(c1: np.ndarray, r1: np.ndarray, c2: np.ndarray, r2: np.ndarray) -> float:
    """Return coverage at risk 5 % of the first minus that of the second model."""
    return coverage_at_risk(c1, r1, 0.05) - coverage_at_risk(c2, r2, 0.05)


def accuracy_difference(r1: np.ndarray, r2: np.ndarray) -> float:
    """Return accuracy of the first minus accuracy of the second model."""
    return float(np.mean(r1)) - float(np.mean(r2))


both = (confidence[first], correct[first], confidence[second], correct[second])
differences = {
    "accuracy": bootstrap(accuracy_difference, correct[first], correct[second]),
    "AURC": bootstrap(aurc_difference, *both),
    "coverage at risk 5 %": bootstrap(coverage_difference, *both),
}
print(f"{first} minus {second}:")
for name, found in differences.items():
    clear = "does not contain 0" if found.low > 0 or found.high < 0 else "contains 0"
    print(f"{name:21} {found.value:+.4f}, 95 % interval {found.low:+.4f} to {found.high:+.4f}: {clear}")

# %%
# An interval that contains 0 is compatible with no difference at all: choose by other criteria, such as speed, or get
# more rows. One that does not contain 0 shows a difference on rows like these, *for these two trained models*: another
# seed may give another picture. The coverage at a risk depends on a few errors near the threshold, so that its interval
# is wide, and approximate.
#
# What would be certified?
# ------------------------
# A coverage read off a curve has no guarantee. For deployment, the fraction accepted with a certificate counts, and it
# depends on which rows were used for calibration. So split the test rows at random into halves, many times: certify
# both models on the first half, and count on the second.

rng = np.random.default_rng(0)
coverage: dict[str, list[float]] = {name: [] for name in models}
risks: dict[str, list[float]] = {name: [] for name in models}
for _ in range(40):
    order = rng.permutation(len(y_test))
    half, other = np.split(order, 2)
    for name in models:
        certificate = squad.certify(confidence[name][half], correct[name][half], risk=0.05, delta=0.1)
        accepted = certificate.accepts(confidence[name][other])
        coverage[name].append(float(accepted.mean()))
        risks[name].append(float((~correct[name][other][accepted]).mean()) if accepted.any() else 0.0)
gain = np.subtract(coverage[first], coverage[second])
for name in models:
    print(f"{name:14} certified coverage {np.mean(coverage[name]):.3f}, selective risk {np.mean(risks[name]):.3f}")
print(f"{first} accepts more in {100 * np.mean(gain > 0):.0f} % of the splits; mean difference {gain.mean():+.3f}")

# %%
# The splits share their rows, so their spread shows how much the choice of calibration rows matters; it is no standard
# error, and more splits do not make the evidence stronger. In the right panel, a line that joins two dots is one split,
# and a dot at 0 % is a split in which nothing could be certified. The curves in the left panel begin at a coverage of
# 2 %: with fewer rows, a single error decides.

orange, blue, grey = "#D55E00", "#0072B2", "#8C8C8C"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), width_ratios=[1.5, 1], layout="constrained")
for name, color, style in ((first, orange, "-"), (second, blue, "--")):
    coverages = np.linspace(0.02, 1, 99)
    curve = [squad.metrics.risk_at_coverage(confidence[name], correct[name], one) for one in coverages]
    left.plot(100 * coverages, 100 * np.array(curve), style, color=color, lw=2, label=name)
left.axhline(5, color=grey, lw=1, ls=":")
left.text(40, 5.2, "risk 5 %", color="#555555")
left.set(xlabel="coverage, % of rows", ylabel="selective risk, % wrong", title="risk-coverage curves", xlim=(0, 100))
left.set_ylim(0, None)
left.legend(frameon=False, loc="upper left")
pairs = 100 * np.array([coverage[first], coverage[second]])
right.plot([0, 1], pairs, color=grey, lw=0.7, alpha=0.5)
right.scatter(np.zeros(pairs.shape[1]), pairs[0], color=orange, s=24, zorder=3)
right.scatter(np.ones(pairs.shape[1]), pairs[1], color=blue, s=24, zorder=3)
right.set(xticks=[0, 1], xlim=(-0.4, 1.4), ylabel="rows accepted, %", title="certified at risk 5 %")
right.set_xticklabels([first, second])
for axis in (left, right):
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to do next
# ---------------
# Decide before you look which measure counts. Choose the model on validation rows, and certify only the chosen one, on
# rows that were not used for the choice: the better of two certificates on the same rows has no guarantee at the stated
# level. :doc:`Certify a model </guides/certify>` explains certificates and intervals of metrics, and
# :doc:`Search </guides/search>` how to compare many settings.
