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
# The first two columns are AUROCs: the probability that the score ranks one of these inputs as less certain than a
# digit of the test set. 1 is perfect, and 0.5 is chance. The others are fractions of the inputs: novel, more confident
# than the certified threshold, and accepted (confident and not novel).

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
own, *others = table["accepted"]
print(f"Accepted: {100 * own:.0f} % of the test set, and at most {100 * max(others):.0f} % of any other kind of input.")

# %%
# Read "confident" as what a threshold on confidence alone would have accepted, and "accepted" as what is left once
# novel rows are referred to a reviewer. The difference is what confidence does *not* catch, but novelty does: far from
# its training data, a network extrapolates, and all samples and members may agree. The novelty check looks at the row
# instead of the prediction, and refers inputs that are far from the training rows.
#
# What remains is the hard part. An 8 has the size, the ink and the pixel range of a training digit, so it is not novel
# by range or distance; there, low confidence is the only protection, and it is not a complete one. Mutual information
# is no cure either: compare the first two columns.

# %%
# Each dot is one input, moved up or down only to keep dots apart; its colour is the decision. The dashed line is the
# certified threshold: blue dots on its right are inputs about which the network is confident, and which only the
# novelty check refers. On the left is one input of each kind, all in the grey scale of the training images (so that
# "another unit" is black).

COLOURS = {"referred: novel": "#0072B2", "referred: low confidence": "#999999", "accepted": "#D55E00"}
figure, axes = plt.subplots(
    len(inputs),
    2,
    figsize=(8, 8),
    width_ratios=[1, 8],
    layout="constrained",
    sharex="col",
    gridspec_kw={"hspace": 0.05},
)
for (picture, axis), (name, answer) in zip(axes, answers.items(), strict=True):
    picture.imshow(inputs[name][3].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    picture.set(xticks=[], yticks=[])
    masks = (answer.novel, ~answer.novel & ~answer.accepted, answer.accepted)
    height = rng.uniform(-1, 1, len(answer))
    for mask, (decision, colour) in zip(masks, COLOURS.items(), strict=True):
        dots = answer.confidence[mask], height[mask]
        axis.scatter(*dots, s=9, color=colour, alpha=0.6, linewidths=0, label=decision)
    axis.axvline(certificate.threshold, color="0.35", linestyle="--", linewidth=1.2, label="threshold")
    axis.set(xlim=(0.1, 1.01), ylim=(-1.3, 1.3), yticks=[])
    axis.set_title(f"{name}: {100 * answer.accepted.mean():.0f} % accepted", loc="left", fontsize=11)
    axis.spines[["top", "right", "left"]].set_visible(False)
axes[-1, 1].set_xlabel("confidence (largest class probability)")
handles, labels = axes[0, 1].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, markerscale=2.5)
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
# Keep ``refer_novel=True``, the default. Before you rely on a model, collect inputs that it is not made for but may be
# given (another device, another unit, a class that is not among its classes), and make this table for them. If unknown
# classes are likely, train with a class "other". :doc:`Prediction and sampling </explanation/sampling>` explains
# confidence and mutual information, :doc:`Data </guides/tables>` the novelty check, and
# :doc:`Certify a model </guides/certify>` the assumptions of a guarantee.
