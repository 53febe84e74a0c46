"""A medical table: groups, a missed class and the report
======================================================

*One row per skin lesion, several lesions per patient, three clinics, and one error that is worse than the others: a
malignant lesion that is called benign. What can I guarantee, and for whom?*

This example goes from a data frame with numbers and categories to a model whose certificate bounds two things in each
clinic: the *selective risk* (error rate among accepted cases) and the *miss rate* of the class malignant (the fraction
of its accepted cases that are predicted as benign). The remaining cases are referred to a dermatologist. At the end
stands the report for those who decide whether to rely on the model.
"""

import base64
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import binomtest

import squad
from squad.data.splits import split_rows
from squad.data.tables import Table
from squad.fitting import FitSettings, fit_predictor
from squad.predictor import Answer
from squad.report import write_report
from squad.train import TrainConfig

plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "0.35"  # safe for colour-blind readers

# %%
# The table
# ---------
# The patients are simulated. Lesions of one patient resemble each other, because skin and age are the patient's. The
# clinic West has an older dermatoscope, whose measurements are less exact.

CLINICS = ["North", "South", "West"]


def simulate(patients: int, seed: int) -> pd.DataFrame:
    """Return a table of lesions, one to four for each patient."""
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(patients), rng.choice(4, patients, p=[0.4, 0.3, 0.2, 0.1]) + 1)
    clinic = rng.choice(CLINICS, patients, p=[0.35, 0.35, 0.3])[of]
    age = rng.normal(58, 15, patients).clip(18, 95).round()[of]
    skin, tendency = rng.normal(size=(2, patients))[:, of]
    malignant = rng.random(len(of)) < 1 / (1 + np.exp(0.4 - 0.03 * (age - 58) - 0.8 * tendency))
    noise = np.where(clinic == "West", 1.1, 0.8)

    def measured(effect: float) -> Any:
        return effect * malignant + 0.5 * skin + noise * rng.normal(size=len(of))

    return pd.DataFrame(
        {
            "patient_id": [f"P{10_000 + number}" for number in of],
            "clinic": clinic,
            "age": age,
            "site": rng.choice(["face", "limb", "trunk"], len(of)),
            "diameter_mm": np.exp(1.5 + 0.35 * measured(2)).round(1),
            "asymmetry": (2 + measured(2)).round(2),
            "border": np.where(measured(2) > 1, "irregular", "regular"),
            "colours": (2 + measured(1.5)).clip(1, 6).round(),
            "bleeding": np.where(rng.random(len(of)) < 0.05 + 0.3 * malignant, "yes", "no"),
            "outcome": np.where(malignant, "malignant", "benign"),
        }
    )


lesions = simulate(12_000, seed=0)
print(lesions.head(6).to_string(index=False))

# %%
# Split by patient
# ----------------
# If one lesion of a patient is in the training set and another one in the test set, the model has seen the patient, and
# the test is too good to be true. So all lesions of a patient go to the same part. The table has one more trap: the
# patient's number must not be a feature. Naming it as the group takes care of both.

fractions = {"training": 0.25, "calibration": 0.5, "test": 0.25}
parts = split_rows(lesions["outcome"], fractions, seed=0, groups=lesions["patient_id"]).parts
training, calibration, test = (lesions.iloc[rows].reset_index(drop=True) for rows in parts.values())
for name, part in zip(fractions, (training, calibration, test), strict=True):
    print(f"{name:12}{part['patient_id'].nunique():>6,} patients {len(part):>7,} lesions")

by_row = split_rows(lesions["outcome"], fractions, seed=0).parts
ids = lesions["patient_id"].to_numpy()
both = np.isin(np.unique(ids[by_row["test"]]), ids[by_row["training"]]).mean()
print(f"A split by row would have put {100 * both:.0f} % of the test patients into the training set as well.")

# %%
# Train
# -----
# ``fit_predictor`` takes tables with categories; ``squad fit training.csv --target outcome --group patient_id
# --members 3`` does the same in the terminal. (:class:`squad.SquadClassifier` follows scikit-learn and takes numbers
# only.)

model = fit_predictor(
    Table.of(training),
    training["outcome"],
    FitSettings(members=3, training=TrainConfig(max_epochs=20)),
    target="outcome",
    group="patient_id",
    groups=training["patient_id"],
)

# %%
# Certify
# -------
# Choose what must hold before you see any result: at most 5 % of the accepted lesions are wrong, and at most 5 % of the
# accepted malignant ones are called benign, *in each clinic*, all of that at confidence level 95 % (``delta=0.05``).
# Every clinic gets a threshold of its own. Lesions of one patient are not independent, as a guarantee needs them to be;
# so one lesion of each patient counts, chosen by a hash. (In the text below, "groups (by clinic)" are the clinics; in
# the last assumption, a "group" is a patient.)

RISK, DELTA = {"wrong": 0.05, "miss rate malignant": 0.05}, 0.05
certified = model.certify(calibration, calibration["outcome"], RISK, DELTA, by="clinic")
print(certified.certificate)

# %%
# In West, far fewer cases are accepted: that is the price of the older device, and it is better paid in referrals than
# in missed melanomas. A file with patients who were trained on is refused, even if the lesions are others:

mixed = pd.concat([calibration, training[:3]])
try:
    model.certify(mixed, mixed["outcome"], RISK, DELTA, by="clinic")
except squad.SquadError as error:
    print(error)

# %%
# Guaranteed and observed
# -----------------------
# The test patients are new. As in the certificate, one lesion of each counts. "Observed" is a fraction of the accepted
# lesions, or of the accepted malignant ones, with a 95 % interval (Clopper and Pearson), in percent. What counts is
# the column "guaranteed": what is observed on a few hundred patients may lie on either side of it by chance.

one_each = test.groupby("patient_id").sample(1, random_state=0)


def observe(answer: Answer, cases: pd.DataFrame) -> pd.DataFrame:
    """Return what happens to the accepted cases of each clinic."""
    truth, rows = cases["outcome"].to_numpy(), []
    for clinic in CLINICS:
        here = (cases["clinic"] == clinic).to_numpy()
        for statement, counted in (("wrong", here), ("missed malignant", here & (truth == "malignant"))):
            wrong = (answer.label != truth)[counted & answer.accepted]
            interval = binomtest(int(wrong.sum()), len(wrong)).proportion_ci()
            rows.append(
                {
                    "clinic": clinic,
                    "statement": statement,
                    "guaranteed": "at most 5",
                    "observed": 100 * wrong.mean(),
                    "interval": f"{100 * interval.low:.1f} to {100 * interval.high:.1f}",
                    "errors": f"{wrong.sum()} of {len(wrong)}",
                }
            )
    return pd.DataFrame(rows)


answer = certified.answer(one_each)
print(answer)
print(observe(answer, one_each).round(1).to_string(index=False, col_space=[8, 17, 11, 9, 11, 11]))

# %%
# What a weaker guarantee would have hidden
# -----------------------------------------
# Two other certificates are made here for comparison, and not used. (Whoever makes three certificates and then uses the
# one that suits has no guarantee.) The first bounds only the selective risk, and the second the miss rate as well, both
# with one threshold for all clinics. Since the patients are simulated, we can examine 12,000 new ones: the bars are
# nearly the true rates, of errors among accepted cases (blue) and among accepted malignant cases (red).

new = simulate(12_000, seed=1).groupby("patient_id").sample(1, random_state=0)
predictors = {
    "errors": model.certify(calibration, calibration["outcome"], 0.05, DELTA),
    "errors, missed class": model.certify(calibration, calibration["outcome"], RISK, DELTA),
    "both, in each clinic": certified,
}
figure, axes = plt.subplots(1, 3, figsize=(6.6, 4.4), sharey=True, layout="constrained")
for ax, (name, predictor) in zip(axes, predictors.items(), strict=True):
    answer = predictor.answer(new)
    seen = observe(answer, new)
    for statement, colour, shift in (("wrong", BLUE, -0.2), ("missed malignant", VERMILION, 0.2)):
        rates = seen[seen["statement"] == statement]["observed"]
        ax.bar(np.arange(3) + shift, rates, 0.38, color=colour, label=statement)
    ax.axhline(5, color=GREY, linestyle="--", linewidth=1.4, label="risk 5 %")
    coverage = 100 * pd.Series(answer.accepted).groupby(new["clinic"].to_numpy()).mean()
    ax.set_xticks(np.arange(3), [f"{clinic}\n{coverage[clinic]:.0f} %" for clinic in CLINICS])
    ax.set_title(name, loc="left", fontsize=12)
figure.suptitle("What the certificate bounds:", x=0.02, ha="left", fontsize=12)
axes[0].set_ylabel("errors among accepted (%)")
axes[1].set_xlabel("clinic, and the fraction of its cases that is accepted")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# On the left, a good average hides two things: malignant lesions are missed more often than predictions are wrong, and
# both are worst in West. In the middle, the miss rate is bounded, but by an average over the clinics. On the right,
# each bar has its guarantee.
#
# The report
# ----------
# One HTML file for the people who decide: what is guaranteed, which class is the weakest, how many cases are referred
# at which risk, what errors and referrals cost, and which cases to look at. It opens offline; here it is embedded.
# The bounds for each clinic are in its first section; the slider below it bounds only the selective risk of all cases.
# (In the terminal: ``squad report model test.csv --out report.html``.)

folder = tempfile.TemporaryDirectory()
report = write_report(
    Path(folder.name) / "report.html",
    {"lesions": certified},
    one_each,
    one_each["outcome"],
    title="Skin lesions in three clinics",
    intended_use="Second reading of dermatoscopic findings; a dermatologist sees every referred lesion.",
    source="the test patients",
)


class Embedded:
    """Shows an HTML file in a notebook, and on this page."""

    def __init__(self, path: Path) -> None:
        self.data = base64.b64encode(path.read_bytes()).decode()

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 42rem; border: 1px solid #8888; border-radius: 0.5rem"
        return f'<iframe title="The report" src="data:text/html;base64,{self.data}" style="{style}"></iframe>'


Embedded(report)

# %%
# What to do next
# ---------------
# * With your own table: ``squad split patients.csv --target outcome --group patient_id``, then ``fit`` and
#   ``squad certify model calibration.csv --risk ".05,miss rate malignant=.05" --by clinic``.
# * The rarest combination decides how many labels you need: the malignant lesions of one clinic. ``squad plan`` and the
#   example :doc:`How many labels do I need? <plot_how_many_labels>` compute numbers; if there are too few, the
#   certificate says which.
# * If errors differ in severity rather than by class, bound a mean cost: see "Costs of confusions" in
#   :doc:`Certify a model </guides/certify>`.
# * A fourth clinic has no threshold, and all of its cases are referred. The example
#   :doc:`What breaks a guarantee <plot_what_breaks_a_guarantee>` shows what happens if a clinic changes.
