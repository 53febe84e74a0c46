"""Certify a scikit-learn model you already have
=============================================

*My random forest is right most of the time. On which predictions can I rely without checking them?*

A certificate answers with a rule and a guarantee: accept a prediction if its confidence is above a threshold, and then
at most 2 % of the accepted predictions are wrong. The other cases are referred to a reviewer. :func:`squad.certify`
needs two arrays from labelled rows that are new to the model: its confidence in each prediction, and whether the
prediction was correct. It neither sees nor changes the model.

Three terms are used throughout: *coverage* is the fraction of cases that are accepted, *selective risk* the error rate
among accepted cases, and the *confidence level* the probability, over the draw of the calibration set, that the
guarantee holds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import squad

plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "0.45"  # safe for colour-blind readers
# sphinx_gallery_thumbnail_number = 2

# %%
# The model
# ---------
# Nothing here is special to this library: a random forest on scikit-learn's handwritten digits. Two parts of the data
# are kept away from training: the *calibration set*, from which the certificate is made, and rows that play the new
# cases.

x, y = load_digits(return_X_y=True)
x_train, x_rest, y_train, y_rest = train_test_split(x, y, train_size=400, stratify=y, random_state=0)
x_cal, x_new, y_cal, y_new = train_test_split(x_rest, y_rest, train_size=900, stratify=y_rest, random_state=0)

model = RandomForestClassifier(n_estimators=200, random_state=0).fit(x_train, y_train)
print(f"Errors on the {len(y_new)} new digits: {100 * (1 - model.score(x_new, y_new)):.1f} %")

# %%
# The certificate
# ---------------
# Choose the risk before you look at any results. Here at most 2 % of accepted predictions may be wrong, at confidence
# level 95 % (``delta=0.05``). Printing the certificate shows the rule, the guarantee and the assumptions behind it.

RISK, DELTA = 0.02, 0.05


def confidence_and_correct(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence of each prediction, and whether it is correct."""
    probabilities = model.predict_proba(rows)
    return probabilities.max(axis=1), model.classes_[probabilities.argmax(axis=1)] == labels


confidence, correct = confidence_and_correct(x_cal, y_cal)
certificate = squad.certify(confidence, correct, risk=RISK, delta=DELTA)
print(certificate)

# %%
# Accept or abstain on new rows
# -----------------------------
# ``certificate.accepts`` applies the rule to the confidences of new predictions. ``certificate.to_json()`` is its
# form on disk, so that the service that predicts does not need the calibration set.

new_confidence, new_correct = confidence_and_correct(x_new, y_new)
accepted = certificate.accepts(new_confidence)
print(f"accepted: {accepted.sum()} of {len(accepted)} new digits, {(~new_correct[accepted]).sum()} of them wrong")
print(f"referred: {(~accepted).sum()}, of which {(~new_correct[~accepted]).sum()} would have been wrong")

# %%
# The digits that the forest is least sure about are the ones a person would look at twice, too. Above each are its
# prediction and its label, in blue if they agree and in red if they do not.

figure, axes = plt.subplots(2, 5, figsize=(6.4, 3.4), layout="constrained")
for ax, row in zip(axes.flat, np.argsort(new_confidence, kind="stable"), strict=False):
    ax.imshow(x_new[row].reshape(8, 8), cmap="Greys")
    guess = model.predict(x_new[row : row + 1])[0]
    ax.set_title(f"{guess}? is {y_new[row]}", fontsize=12, color=BLUE if guess == y_new[row] else VERMILION)
    ax.set_axis_off()
figure.suptitle("Least confident of the new digits (prediction? label)", fontsize=13)
plt.show()

# %%
# The risk–coverage curve
# -----------------------
# If fewer cases are accepted, the most confident ones remain, and fewer of them are wrong. The curve shows this trade
# for the calibration set and for the new digits; the star is the certified rule on the calibration set. It lies well
# below the allowed risk: that distance pays for the confidence level, and it shrinks as the calibration set grows.


def risk_coverage(score: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coverage and selective risk of every threshold, tied cases together."""
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.diff(score[order]) != 0, True)
    number = np.arange(1, len(score) + 1)
    return (number / len(score))[last_of_tie], (np.cumsum(~right[order]) / number)[last_of_tie]


figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for score, right, name, (colour, style) in [
    (confidence, correct, "calibration set", (BLUE, "-")),
    (new_confidence, new_correct, "new digits", (GREY, "--")),
]:
    coverage, risk = risk_coverage(score, right)
    ax.plot(100 * coverage, 100 * risk, color=colour, linestyle=style, linewidth=2, label=name)
ax.axhline(100 * RISK, color=VERMILION, linewidth=1.5)
ax.text(1, 100 * RISK + 0.12, f"allowed: {100 * RISK:g} %", color=VERMILION)
ax.plot(
    100 * certificate.coverage,
    100 * certificate.errors / certificate.n,
    marker="*",
    markersize=18,
    color=VERMILION,
    markeredgecolor="white",
    linestyle="none",
    label="certified rule",
)
ax.set(xlabel="coverage (% of cases accepted)", ylabel="selective risk (% wrong)", xlim=(0, 101), ylim=(-0.1, None))
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.85))
plt.show()

# %%
# Does the guarantee hold?
# ------------------------
# One calibration set proves nothing. To test the guarantee we need a population whose risk is known, and many
# calibration sets drawn from it. Take all digits that the forest was not trained on as the population: the selective
# risk of any rule can be counted there. Draw 500 calibration sets of 900 digits from it, independently and with
# replacement, and certify each. A certificate is false if its rule has a risk above 2 % in the population; the
# guarantee allows that in 5 % of the draws.

pool_confidence, pool_correct = confidence_and_correct(x_rest, y_rest)
rng = np.random.default_rng(0)
risks, coverages = [], []
for _ in range(500):
    draw = rng.integers(len(pool_correct), size=900)
    made = squad.certify(pool_confidence[draw], pool_correct[draw], risk=RISK, delta=DELTA)
    if made.certified:
        rule = made.accepts(pool_confidence)
        risks.append(1 - pool_correct[rule].mean())
        coverages.append(rule.mean())

false = np.array(risks) > RISK
print(f"certified: {len(risks)} of 500 calibration sets, with a mean coverage of {100 * np.mean(coverages):.1f} %")
print(f"false: {false.sum()} of 500 ({100 * false.sum() / 500:.1f} %; the guarantee allows {100 * DELTA:g} %)")

figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
edges = (100 * RISK * np.arange(0, max(risks) / RISK + 0.2, 0.1)).tolist()  # the allowed risk is an edge
ax.hist(100 * np.array(risks)[~false], bins=edges, color=BLUE, label="guarantee holds")
ax.hist(100 * np.array(risks)[false], bins=edges, color=VERMILION, label="guarantee does not hold")
ax.axvline(100 * RISK, color=VERMILION, linewidth=1.5)
ax.set_ylim(0, 1.4 * ax.get_ylim()[1])
ax.text(100 * RISK + 0.03, 0.6 * ax.get_ylim()[1], f"allowed:\n{100 * RISK:g} %", color=VERMILION)
ax.set(xlabel="true selective risk of the certified rule (%)", ylabel="calibration sets", xlim=(0, None))
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# What to do next
# ---------------
# * Replace the forest by your own model. Any score will do that is higher for predictions that are more likely to be
#   correct; it need not be a calibrated probability. :mod:`squad.metrics.scores` has others, such as the margin.
# * Keep the assumptions that the certificate prints in mind: calibration rows must be new to the model, and drawn like
#   the cases to come. :doc:`Certify a model </guides/certify>` has a section on when the guarantee holds.
# * If a class or a group matters most, bound its own error rate: see "Miss rate per class" in the same guide.
# * If nothing could be certified, the calibration set may be too small: see
#   :doc:`How many labels do I need? <plot_how_many_labels>`
