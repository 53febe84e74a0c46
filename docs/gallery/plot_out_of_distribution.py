"""Out-of-distribution inputs
==========================

*My model was trained on one kind of input. What happens when it gets another kind: is it unsure, or confidently wrong?*

We train on the digits 0 to 7, and then show the model digits it does not know (8 and 9), rotated and inverted images,
noise, and images in another unit. Three numbers may give such inputs away: low *confidence*, high *mutual information*
(samples of the network disagree), and *novelty* (the row is unlike the training rows, ``Answer.novel``).
"""

# %%
# Train and certify on the digits 0 to 7
# --------------------------------------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import squad

x, y = load_digits(return_X_y=True)
known = y < 8
x_train, x_rest, y_train, y_rest = train_test_split(x[known], y[known], test_size=0.55, random_state=0)
x_cal, x_test, y_cal, y_test = train_test_split(x_rest, y_rest, test_size=0.4, random_state=0)
model = squad.SquadClassifier(members=5, max_epochs=20, device="cpu", random_state=0).fit(x_train, y_train)
certified = model.certify(x_cal, y_cal, risk=0.01, delta=0.05)
certificate = certified.certificate
assert certificate is not None
print(certificate.headline)

# %%
# (For this example, 1 % was chosen after trying 3 % on the same rows, at which every row was accepted, so that the
# guarantee is only an illustration: on your own data, choose the risk before you look.)
#
# The guarantee is for new rows that are drawn like the calibration rows. None of the inputs below are, apart from the
# test set.
#
# Out-of-distribution inputs
# --------------------------
# Images that are "two pixels off" still show a digit, in another place. In "another unit", pixels go from 0 to 255
# instead of 0 to 16.

rng = np.random.default_rng(0)
images = x_test.reshape(-1, 8, 8)
inputs = {
    "digits 0 to 7 (test set)": x_test,
    "digits 8 and 9": x[~known],
    "rotated by 90°": np.rot90(images, axes=(1, 2)).reshape(-1, 64),
    "two pixels off": np.roll(images, 2, axis=2).reshape(-1, 64),
    "inverted": 16 - x_test,
    "uniform noise": rng.uniform(0, 16, x_test.shape),
    "another unit": x_test * (255 / 16),
}
answers = {name: certified.answer(rows) for name, rows in inputs.items()}

# %%
# Which scores separate them from the test set?
# ---------------------------------------------
# An AUROC of 1 is perfect, 0.5 is chance, and below 0.5 the score is *higher in the wrong place*: the model is more
# confident on these inputs than on the digits that it knows.

test = answers["digits 0 to 7 (test set)"]
table = pd.DataFrame(
    {
        name: {
            "AUROC confidence": squad.metrics.ood_auroc(test.confidence, answer.confidence),
            "AUROC mutual inf.": squad.metrics.ood_auroc(-test.mutual_information, -answer.mutual_information),
            "novel": answer.novel.mean(),
            "confident": (answer.confidence > certificate.threshold).mean(),
            "accepted": answer.accepted.mean(),
        }
        for name, answer in answers.items()
    }
).T
print(table.round(3).to_string())
most = table["accepted"].drop(test_name := "digits 0 to 7 (test set)").idxmax()
print(f"Test set accepted: {table.loc[test_name, 'accepted']:.1%}; of the others, most accepted: {most}.")

# %%
# Read "confident" as what a threshold on confidence alone would have accepted, and "accepted" as what is left once
# novel rows are referred to a reviewer. The difference is what confidence does *not* catch, but novelty does: far from
# its training data, a network extrapolates, and all samples and members may agree. The novelty check looks at the row
# instead of the prediction, and refers inputs that are far from the training rows.
#
# What remains is the hard part. An 8 has the size, the ink and the pixel range of a training digit, so it is not novel
# by range or distance; there, low confidence is the only protection, and it is not a complete one. Mutual information
# is no cure either: compare the first two columns.

orange, blue, grey = "#D55E00", "#0072B2", "#BBBBBB"
figure, axes = plt.subplots(
    len(inputs),
    2,
    figsize=(8, 7),
    width_ratios=[1, 8],
    layout="constrained",
    sharex="col",
    gridspec_kw={"hspace": 0.05},
)
bins = np.linspace(0.2, 1, 33)
for (picture, axis), (name, answer) in zip(axes, answers.items(), strict=True):
    picture.imshow(inputs[name][3].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    picture.set(xticks=[], yticks=[])
    groups = [answer.confidence[answer.novel], answer.confidence[~answer.novel & ~answer.accepted]]
    groups.append(answer.confidence[answer.accepted])
    weights = [np.full(len(group), 100 / len(answer)) for group in groups]
    labels = ["referred: novel", "referred: low confidence", "accepted"]
    axis.hist(groups, bins, weights=weights, stacked=True, color=[blue, grey, orange], label=labels)
    axis.set(yscale="symlog", ylim=(0, 100), yticks=[0, 1, 10, 100], yticklabels=["0", "1", "10", "100"])
    axis.set_title(f"{name}: {answer.accepted.mean():.0%} accepted", loc="left", fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
axes[len(inputs) // 2, 1].set_ylabel("inputs, % (log scale from 1 %)")
axes[-1, 1].set_xlabel("confidence")
figure.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# Why was a row referred?
# -----------------------

for name in ("another unit", "uniform noise"):
    answer = answers[name]
    print(f"{name}: {next(iter(answer.reason[answer.novel]), 'no novel row')}.")

# %%
# What to do next
# ---------------
# Keep ``refer_novel=True``, the default. Before you rely on a model, collect the inputs that it may wrongly get
# (another device, another unit, a class that is not among its classes), and make this table for them. If unknown
# classes are likely, train with a class "other". The page on prediction explains confidence and mutual information,
# the page on data the novelty check, and the page on selection the assumptions of a guarantee.
