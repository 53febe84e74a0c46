"""How many labels do I need?
==========================

*Labels are expensive. How many calibration cases must I label before a certificate can succeed?*

The answer depends on four numbers: the risk that you allow among accepted predictions, ``delta`` (1 minus the
confidence level), the fraction of cases that you want to accept, and how often the model is wrong among these.
:func:`squad.plan` turns them into a number of labels, and :func:`squad.selective.success_probability` computes the
probability that a given number of labels is enough: the *power* of the certificate.
"""

import matplotlib.pyplot as plt
import numpy as np

import squad
from squad.selective import success_probability

plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
COLOURS = ["#0072B2", "#D55E00", "#009E73"]  # safe for colour-blind readers
STYLES = ["-", "--", ":"]
# sphinx_gallery_thumbnail_number = 1

# %%
# The least that any certificate needs
# ------------------------------------
# Even if no accepted prediction is wrong, a few correct ones prove little. Without an error, a guarantee needs
# ln(delta) / ln(1 - risk) accepted cases: halving the risk doubles them, while a smaller delta costs little.

print("accepted cases needed without any error")
deltas = (0.1, 0.05, 0.01)
print("   risk" + "".join(f"   delta {100 * delta:>2g} %" for delta in deltas))
for risk in (0.005, 0.01, 0.02, 0.05):
    print(f"  {100 * risk:>3g} %" + "".join(f"{squad.plan(risk=risk, delta=delta):>13}" for delta in deltas))

# %%
# Power against the number of labels
# ----------------------------------
# Suppose that a model can accept 70 % of the cases, half as many of them wrong as the risk allows. Success means a
# certificate that accepts at least nine tenths of those 70 %. If no more is known, the probability is that of the least
# favourable population with these numbers, so that a real model succeeds at least as often.
# Dots mark the number of labels that ``squad.plan`` returns for a power of 90 %. With few labels the
# curves are not smooth; plan for a power at which they are.

COVERAGE, DELTA = 0.7, 0.05
labels = np.unique(np.geomspace(150, 20_000, 15).astype(int))

figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for risk, colour, style in zip((0.05, 0.02, 0.01), COLOURS, STYLES, strict=True):
    power = [success_probability(int(m), risk, DELTA, COVERAGE, error=risk / 2) for m in labels]
    ax.plot(labels, 100 * np.array(power), color=colour, linestyle=style, linewidth=2.2, label=f"{100 * risk:g} %")
    planned = squad.plan(risk, DELTA, COVERAGE, error=risk / 2)
    ax.plot(planned, 90, "o", color=colour, markersize=9)
    print(f"risk {100 * risk:g} %: {planned:,} labels")
ax.axhline(90, color="0.6", linewidth=1, zorder=0)
ax.set(
    xscale="log",
    xlabel="labelled calibration cases",
    ylabel="probability of success (%)",
    ylim=(0, 102),
    xticks=[200, 500, 1000, 2000, 5000, 10_000, 20_000],
    xticklabels=["200", "500", "1k", "2k", "5k", "10k", "20k"],
)
ax.minorticks_off()
ax.legend(title="risk allowed", frameon=False, loc="upper left", bbox_to_anchor=(0, 0.87))
plt.show()

# %%
# The model's error rate matters more than delta
# ----------------------------------------------
# The closer the model's error rate among accepted cases is to the risk that you allow, the more labels it takes to tell
# them apart. Compare the slope of the curves with the distance between them: a better model saves more labels than a
# lower confidence level.

RISK = 0.02
shares = np.array([0, 0.2, 0.4, 0.6])
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for delta, colour, style in zip((0.01, 0.05, 0.1), COLOURS, STYLES, strict=True):
    planned_labels = [squad.plan(RISK, delta, COVERAGE, error=RISK * share) for share in shares]
    ax.plot(
        100 * RISK * shares,
        planned_labels,
        style,
        marker="o",
        color=colour,
        linewidth=2.2,
        label=f"{100 * (1 - delta):g} %",
    )
    print(f"confidence level {100 * (1 - delta):g} %: {planned_labels[0]:,} labels if no accepted case is wrong,")
    print(f"    {planned_labels[-1]:,} labels if {100 * RISK * shares[-1]:.1f} % of them are")
ax.set(
    yscale="log",
    xlabel=f"error rate among the {100 * COVERAGE:g} % most confident cases (%)",
    ylabel="labels for a power of 90 %",
    yticks=[200, 500, 1000, 2000, 5000, 10_000],
    yticklabels=["200", "500", "1k", "2k", "5k", "10k"],
)
ax.minorticks_off()
ax.legend(title=f"confidence level (risk {100 * RISK:g} %)", frameon=False)
plt.show()

# %%
# Plan from a pilot
# -----------------
# The least favourable population is a pessimist. If you already have the confidences of some labelled cases that are
# new to the model (and will not be in the calibration set), pass them as ``pilot``: the probability is then that of
# cases drawn from it, an estimate that is as good as the pilot is large. Here the pilot is simulated, with errors
# concentrated among the less confident cases, as they are for most models.

rng = np.random.default_rng(0)
confidence = rng.random(2000)
correct = rng.random(2000) > 0.25 * (1 - confidence) ** 3
top = confidence >= np.quantile(confidence, 1 - COVERAGE)
error = 1 - correct[top].mean()
print(f"error rate among the most confident {100 * COVERAGE:g} % of the pilot: {100 * error:.1f} %")

RISK_OF_PILOT = 0.05
worst_case = squad.plan(RISK_OF_PILOT, DELTA, COVERAGE, error=error)
from_pilot = squad.plan(RISK_OF_PILOT, DELTA, COVERAGE, pilot=(confidence, correct))
print(f"labels, from coverage and error rate alone: {worst_case:,}")
print(f"labels, from the pilot: {from_pilot:,}")

# %%
# Check it: certify many calibration sets of that size, drawn from the pilot, and count successes.

draws = [rng.integers(2000, size=from_pilot) for _ in range(300)]
made = [squad.certify(confidence[draw], correct[draw], risk=RISK_OF_PILOT, delta=DELTA) for draw in draws]
succeeded = np.mean([c.certified and c.coverage >= 0.9 * COVERAGE for c in made])
print(f"certified with enough coverage: {100 * succeeded:.1f} % of 300 simulated calibration sets (planned: 90 %)")

# %%
# What to do next
# ---------------
# * Estimate coverage and error rate of your model on a test set (``squad evaluate``), then run ``squad plan --risk .02
#   --coverage .7 --error .01``. It plans for the first attempt to certify a model, which uses 90 % of delta; in Python,
#   pass ``attempt=1``.
# * If too many labels are needed, allow a higher risk, or improve the model.
# * For a miss rate of one class, what counts is the number of labelled cases *of that class*: see "Miss rate per class"
#   in :doc:`Certify a model </guides/certify>`.
# * Label once, certify once. "Certifying again" in the same guide explains why another attempt has a price.
