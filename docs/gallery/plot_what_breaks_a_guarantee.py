"""What breaks a guarantee: shift, copies, repeated certification
==============================================================

*The certificate says 5 % at confidence level 90 %. What could I do wrong, so that this is not true?*

A guarantee is about a procedure: draw a calibration set from the population of new cases, certify once, and accept
above the threshold. For at most a fraction ``delta`` of all calibration sets, the certificate is then *false*: its rule
has a selective risk (error rate among accepted cases) above the risk that was guaranteed. After any other procedure,
delta means nothing. This example breaks the procedure in six ways, on a population whose risks are known exactly,
counts false certificates, and shows what the library detects, what it corrects, and what only new labels can show.
"""

import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

import squad
from squad.selective import band_of

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "0.35"  # safe for colour-blind readers

# %%
# A population that is known
# --------------------------
# Confidences are uniform between 0 and 1, and a prediction with confidence c is wrong with probability 0.3 (1 − c)².
# The selective risk of the rule "accept above t" is then 0.1 (1 − t)²: 10 % if all cases are accepted, and 5 % above
# the threshold 0.29, where 71 % are. All certificates are for a risk of 5 % at delta = 10 %, that is, at confidence
# level 90 %, from 1,000 calibration cases.

RISK, DELTA, CASES, REPETITIONS = 0.05, 0.1, 1000, 800


def draw(rng: np.random.Generator, number: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return confidences of cases, and whether the predictions are correct."""
    confidence = rng.random(number)
    return confidence, rng.random(number) >= 0.3 * (1 - confidence) ** 2


def true_risk(threshold: float) -> float:
    """Return the selective risk of a rule in the population."""
    return 0.1 * (1 - max(threshold, 0)) ** 2


def is_false(certificate: squad.Certificate, factor: float = 1.0) -> bool:
    """Return whether the certified rule has a higher risk than guaranteed, if risks were multiplied by a factor."""
    return certificate.certified and factor * true_risk(certificate.threshold) > RISK


rng = np.random.default_rng(0)
false = [is_false(squad.certify(*draw(rng, CASES), RISK, DELTA)) for _ in range(REPETITIONS)]
print(f"Honest procedure: {100 * np.mean(false):.1f} % of {REPETITIONS} certificates are false; 10 % are allowed.")

# %%
# Six ways to break the procedure
# -------------------------------
# Each function below plays one repetition: it draws a calibration set, certifies in the wrong way to a growing degree,
# and does the same with the library's safeguard. It returns which certificates are false: the first list is without,
# the second with the safeguard.
#
# **More errors.** New cases are wrong more often than calibration cases with the same confidence: another scanner,
# another year. No method of certification can prevent this.

Outcome = tuple[list[bool], list[bool]]
FACTORS = (1, 1.1, 1.2, 1.3, 1.5)


def more_errors(rng: np.random.Generator) -> Outcome:
    """New cases are wrong more often, by a factor; there is no safeguard."""
    made = squad.certify(*draw(rng, CASES), RISK, DELTA)
    return [is_false(made, factor) for factor in FACTORS], []


# %%
# **Harder cases.** Predictions are wrong as often as before at each confidence, but low confidences become more
# frequent: with the density b (1 − c)\ :sup:`b − 1` instead of 1, the risk of every rule is 3b / (b + 2) times as high.
# If the change is *known*, the calibration cases can be weighted with it: ``weights`` is the safeguard.


def harder_cases(rng: np.random.Generator) -> Outcome:
    """Low confidences become more frequent; the safeguard is to weight calibration cases."""
    confidence, correct = draw(rng, CASES)
    made = squad.certify(confidence, correct, RISK, DELTA)
    found: Outcome = ([], [])
    for factor in FACTORS:
        b = 2 * factor / (3 - factor)
        weights = b * (1 - confidence) ** (b - 1)
        weighted = squad.certify(confidence, correct, RISK, DELTA, weights=weights, max_weight=b)
        found[0].append(is_false(made, factor))
        found[1].append(is_false(weighted, factor))
    return found


# %%
# **Copies.** Each calibration case occurs several times, for instance because tables were joined carelessly. Copies
# look like evidence, but are none. The safeguard counts each case once.

TIMES = (1, 2, 3, 5, 10)


def copies(rng: np.random.Generator) -> Outcome:
    """Every calibration case occurs several times; the safeguard is to count it once."""
    confidence, correct = draw(rng, CASES)
    once = is_false(squad.certify(confidence, correct, RISK, DELTA))
    repeated = [squad.certify(np.repeat(confidence, k), np.repeat(correct, k), RISK, DELTA) for k in TIMES]
    return [is_false(made) for made in repeated], [once] * len(TIMES)


# %%
# **Training rows.** Some calibration rows were in the training set, and the model remembers their labels: on these rows
# it is always correct. The safeguard leaves them out.

FRACTIONS = (0, 0.05, 0.1, 0.15, 0.2)


def training_rows(rng: np.random.Generator) -> Outcome:
    """Some calibration cases are correct in any case; the safeguard is to leave them out."""
    confidence, correct = draw(rng, CASES)
    found: Outcome = ([], [])
    for fraction in FRACTIONS:
        seen = np.arange(CASES) < fraction * CASES
        found[0].append(is_false(squad.certify(confidence, correct | seen, RISK, DELTA)))
        found[1].append(is_false(squad.certify(confidence[~seen], correct[~seen], RISK, DELTA)))
    return found


# %%
# **Certifying again.** Of 2,000 labelled cases, a random half is the calibration set. Repeat with other halves, and
# keep the certificate with the highest coverage. The safeguard is that attempts share delta: the first uses 90 % of it,
# the second 5 %, the third 2.5 %, and so on.

ATTEMPTS = (1, 2, 4, 7, 10)


def certifying_again(rng: np.random.Generator) -> Outcome:
    """The certificate with the highest coverage is kept; the safeguard is to number the attempts."""
    confidence, correct = draw(rng, 2 * CASES)
    halves = [rng.permutation(2 * CASES)[:CASES] for _ in range(max(ATTEMPTS))]
    found: Outcome = ([], [])
    for kept, numbers in zip(found, ([None] * len(halves), range(1, len(halves) + 1)), strict=True):
        made = [
            squad.certify(confidence[half], correct[half], RISK, DELTA, attempt=number)
            for half, number in zip(halves, numbers, strict=True)
        ]
        kept += [is_false(max(made[:attempts], key=lambda one: one.coverage)) for attempts in ATTEMPTS]
    return found


# %%
# **Choosing the risk after looking.** Certify at several risks from 1 to 10 %, and keep the one that looks best: here,
# another point of risk must be worth eight points of coverage. The safeguard is a *band*: upper bounds on the risk of
# all thresholds, which hold together with confidence level 90 %, so that choosing among them does no harm.

RISKS = np.round(np.linspace(0.01, 0.1, 19), 3)
CHOICES = {1: RISKS[8:9], 4: RISKS[3::5], 10: RISKS[::2], 19: RISKS}  # a single one is 5 %


def choosing_the_risk(rng: np.random.Generator) -> Outcome:
    """The risk that looks best is kept; the safeguard is the band."""
    cases = draw(rng, CASES)
    certified = {risk: squad.certify(*cases, float(risk), DELTA) for risk in RISKS}
    band = band_of(*cases, DELTA, r_max=0.1)
    rules = {risk: band.at(float(risk)) for risk in RISKS}
    found: Outcome = ([], [])
    for choices in CHOICES.values():
        best = max(choices, key=lambda risk: certified[risk].coverage - 8 * risk)
        found[0].append(certified[best].certified and true_risk(certified[best].threshold) > best)
        with_rule = [risk for risk in choices if rules[risk] is not None]
        best = max(with_rule, key=lambda risk: band.n[rules[risk]] / CASES - 8 * risk, default=0.0)
        found[1].append(bool(with_rule) and true_risk(float(band.threshold[rules[best]])) > best)
    return found


# %%
# False certificates
# ------------------
# The dashed line is delta: the fraction of false certificates that the guarantee allows. The first point of each line
# is the honest procedure, with other random calibration sets than above. Each point is a fraction of 800 repetitions,
# so that its standard error is about one percentage point near the dashed line, and at most two elsewhere.

PANELS: list[tuple[Callable[[np.random.Generator], Outcome], str, str, Sequence[Any], str]] = [
    (more_errors, "More errors", "error rate, relative to calibration", FACTORS, "no safeguard"),
    (harder_cases, "Harder cases", "error rate, relative to calibration", FACTORS, "known weights"),
    (copies, "Copies", "occurrences of each case", TIMES, "each case counts once"),
    (training_rows, "Training rows", "% of the calibration set", FRACTIONS, "leave them out"),
    (certifying_again, "Certifying again", "attempts, the best one kept", ATTEMPTS, "attempts share delta"),
    (choosing_the_risk, "Choosing the risk after looking", "risks to choose from", list(CHOICES), "band"),
]
figure, axes = plt.subplots(3, 2, figsize=(6.8, 8.6), sharey=True, layout="constrained")
rows = {}
for ax, (repetition, title, label, degrees, safeguard) in zip(axes.flat, PANELS, strict=True):
    rng = np.random.default_rng(1)
    outcomes = [repetition(rng) for _ in range(REPETITIONS)]
    without = 100 * np.mean([first for first, _ in outcomes], axis=0)
    with_safeguard = 100 * np.mean([second for _, second in outcomes], axis=0)
    x = np.array(degrees) * (100 if repetition is training_rows else 1)
    ax.plot(x, without, "o-", color=VERMILION, linewidth=2, label="without safeguard")
    if len(with_safeguard):
        ax.plot(x, with_safeguard, "s-", color=BLUE, linewidth=2, label="with safeguard")
    text = f"safeguard: {safeguard}" if len(with_safeguard) else safeguard
    label_of_delta = f"delta: {100 * DELTA:g} % are allowed"
    ax.axhline(100 * DELTA, color=GREY, linestyle="--", linewidth=1.4, label=label_of_delta)
    ax.text(0.03, 0.94, text, color=BLUE if len(with_safeguard) else GREY, va="top", transform=ax.transAxes)
    ax.set(xlabel=label, xticks=x)
    ax.set_title(title, loc="left", fontsize=12)
    worst = with_safeguard.max() if len(with_safeguard) else np.nan
    rows[title] = {"honest": without[0], "at worst": without[-1], "safeguard, at worst": worst}
axes[0, 0].set_ylim(-1.5, None)
figure.supylabel("false certificates (%)", fontsize=12)
figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()

print(f"False certificates, % ({100 * DELTA:g} % are allowed)")
print(pd.DataFrame(rows).T.round(1).to_string(na_rep="none"))

# %%
# The first two panels have the same line without a safeguard: what matters is how much riskier the accepted cases are,
# not why. A risk that is one tenth higher is enough to leave delta behind, because a certificate uses up most of the
# room that the guarantee leaves. In the second panel, the safeguard works because the weights are the true ones.
#
# What the library notices
# ------------------------
# A model of this library keeps track of its training rows and of the attempts to certify it. It therefore notices
# training rows and copies in a calibration file, and counts attempts. Here is one, for a simulated table of laboratory
# values, with which the mistakes can be made for real.


def patients(number: int, seed: int) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return laboratory values and diagnoses."""
    rng = np.random.default_rng(seed)
    ill = rng.random(number) < 0.4
    values = rng.normal(size=(number, 4)) + 1.2 * ill[:, None]
    mean, deviation = [5.5, 4.2, 14.0, 6.0], [1.0, 0.5, 1.5, 2.0]
    frame = pd.DataFrame(mean + values * deviation, columns=["glucose", "potassium", "hemoglobin", "urea"])
    return frame, np.where(ill, "ill", "healthy")


def certify(x: pd.DataFrame, y: NDArray[Any], predictor: squad.Predictor) -> squad.Predictor:
    """Certify at a risk of 5 %, and print warnings and the headline."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = predictor.certify(x, y, RISK, DELTA)
    for warning in caught:
        print(textwrap.fill(f"Warning: {warning.message}", 100))
    print(textwrap.fill(str(made.certificate).splitlines()[0], 100))
    return made


x_train, y_train = patients(1500, seed=0)
x_cal, y_cal = patients(1500, seed=1)
x_new, y_new = patients(3000, seed=2)
model = squad.SquadClassifier(max_epochs=25, device="cpu", random_state=0).fit(x_train, y_train).predictor_
certified = certify(x_cal, y_cal, model)

# %%
# **Training rows**: 150 of them, rounded to two decimals, in the calibration file. Near copies are found as well, and
# the file is refused.

try:
    certify(pd.concat([x_cal, x_train[:150].round(2)]), np.concatenate([y_cal, y_train[:150]]), model)
except squad.SquadError as error:
    print(textwrap.fill(f"Error: {error}", 100))

# %%
# **Copies**: the whole file twice. The result is that of the file.

doubled = certify(pd.concat([x_cal, x_cal]), np.concatenate([y_cal, y_cal]), model)

# %%
# **Certifying again**: a certified predictor knows its attempts. The second one uses 5 % of delta, so that fewer cases
# are accepted although the calibration set is as large.

x_more, y_more = patients(1500, seed=3)
again = certify(x_more, y_more, certified)
for attempt in again.attempts:
    share = 100 * attempt["spent"] / DELTA
    print(f"attempt {attempt['attempt']}: {attempt['m']:,} cases, {share:g} % of delta")

# %%
# Two things cannot be counted: attempts with arrays (:func:`squad.certify` keeps no record, so pass ``attempt``), and
# certifying the *uncertified* predictor again, or several models, and choosing between the results.
#
# **Choosing the risk after looking**: ask for a band, and read off as many risks as you like.

band = model.certify(x_cal, y_cal, risk=[0.03, 0.05, 0.07], delta=DELTA, method="band").certificate
assert band is not None
for rule in band.rules:
    print(f"risk {100 * rule.risks['wrong']:g} %: accepts {100 * rule.coverage:.1f} % of the cases")

# %%
# What only new labels can show
# -----------------------------
# Now the new cases change. If glucose is in mg/dl instead of mmol/l, it is 18 times as large: every case is *novel*
# (unlike the training rows), and referred to a reviewer. If the device reads 2 mmol/l too low, nearly all values are
# still within the training range, and about as many cases are accepted. Only their labels tell. The p-value is the
# probability of so many errors or more if the selective risk were 5 %.

changes = {
    "no change": x_new,
    "glucose in mg/dl": x_new.assign(glucose=18 * x_new["glucose"]),
    "glucose 2 mmol/l too low": x_new.assign(glucose=x_new["glucose"] - 2),
}
found = {}
for name, x_changed in changes.items():
    answer = certified.answer(x_changed)
    wrong = (answer.label != y_new)[answer.accepted]
    chance = binomtest(int(wrong.sum()), len(wrong), RISK, "greater").pvalue if len(wrong) else np.nan
    found[name] = {
        "novel, %": f"{100 * answer.novel.mean():.1f}",
        "accepted, %": f"{100 * answer.accepted.mean():.1f}",
        "wrong among accepted, %": f"{100 * wrong.mean():.1f}" if len(wrong) else "",
        "p-value": f"{chance:.2g}" if len(wrong) else "",
    }
print(pd.DataFrame(found).T.to_string())
print(f"The first reason: {certified.answer(changes['glucose in mg/dl'][:1]).reason[0]}.")

# %%
# What to do next
# ---------------
# * Split first, by patient if there are several rows of one (see :doc:`A medical table <plot_medical_table>`), and
#   touch the calibration set once.
# * Choose risk and delta before you see results, or use ``band``. Number your attempts.
# * After deployment, have a random sample of the *accepted* cases labelled from time to time, and repeat the test above
#   with it; ``squad report`` makes it at the 1 % level for any labelled file. A small p-value means that the guarantee
#   does not hold for these cases. A large one does not prove that it does.
# * If the population has changed, certify again with new cases. If you know how it has changed, see "Calibration
#   samples from another distribution" in :doc:`Certify a model </guides/certify>`.
