"""A SQUAD layer in your own training loop
=======================================

*I have a PyTorch training loop. Can my network learn where it should abstain, and can I see why?*

A SQUAD layer replaces a linear layer and its activation. Each output is a small probability distribution: a latent
variable with a few possible values and a probability for each. Sampling the latents and averaging the predictions
gives a confidence; a certificate turns it into a rule for when to abstain; and the distributions can be looked at.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_moons
from torch import nn

import squad

plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "0.35"  # safe for colour-blind readers
# sphinx_gallery_thumbnail_number = 1


def moons(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of two noisy half-moons and their classes."""
    points, labels = make_moons(rows, noise=0.3, random_state=seed)
    return torch.tensor(points, dtype=torch.float32), torch.tensor(labels)


x, y = moons(600, seed=0)
x_cal, y_cal = moons(1000, seed=1)
x_new, y_new = moons(5000, seed=2)

# %%
# The loop
# --------
# Two things differ from any other loop: the temperature of the relaxed samples is lowered during training, and the loss
# has a KL term per SQUAD layer, which ``squad.collect_kl`` collects.

torch.manual_seed(0)
net = nn.Sequential(squad.SquadLinear(2, 16, bins=11), squad.SquadLinear(16, 16, bins=11), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

net.train()
for epoch in range(80):
    squad.set_temperature(net, max(0.5, 1 - epoch / 60))
    for rows in torch.randperm(len(x)).split(100):
        with squad.collect_kl() as kls:
            logits = net(x[rows])
        loss = F.cross_entropy(logits, y[rows]) + 0.003 * sum(kl.mean() for kl in kls)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss of the last batch: {loss.item():.3f}")

# %%
# Prediction: the mean over samples
# ---------------------------------
# In eval mode, each layer samples with its own seed, the same for all rows, so a prediction is a function of its row.


@torch.no_grad()
def predict(points: torch.Tensor) -> np.ndarray:
    """Return class probabilities, averaged over 32 samples of the latents."""
    net.eval()
    samples = []
    for index in range(32):
        with squad.sample_index(index):
            samples.append(net(points).softmax(-1))
    return torch.stack(samples).mean(0).numpy()


probabilities = predict(x_new)
wrong = probabilities.argmax(1) != y_new.numpy()
print(f"errors on {len(x_new):,} new points: {100 * wrong.mean():.1f} %")

# %%
# When to abstain
# ---------------
# Certify the confidences on a calibration set: at most 4 % of accepted points may be wrong, at confidence level 95 %.

probabilities_cal = predict(x_cal)
certificate = squad.certify(
    probabilities_cal.max(1), probabilities_cal.argmax(1) == y_cal.numpy(), risk=0.04, delta=0.05
)
print(certificate.headline)
accepted = certificate.accepts(probabilities.max(1))
print(f"new points accepted: {100 * accepted.mean():.1f} %, of which wrong: {100 * wrong[accepted].mean():.1f} %")
print(f"new points referred: {100 * (~accepted).mean():.1f} %, of which wrong: {100 * wrong[~accepted].mean():.1f} %")

# %%
# In the blue and the yellow region, the network accepts its prediction of class 0 or 1. In the grey region it abstains:
# it follows the line between the moons, where the classes overlap. Dots and triangles are training points. A, B and C
# are three points to look at later: A and C deep in one moon each, and B where the network is least sure.

side = torch.linspace(-1.8, 2.8, 160), torch.linspace(-1.5, 2.0, 160)
grid_y, grid_x = torch.meshgrid(side[1], side[0], indexing="ij")
grid = torch.stack([grid_x.flatten(), grid_y.flatten()], 1)
on_grid = predict(grid)
region = np.where(certificate.accepts(on_grid.max(1)), on_grid.argmax(1) * 2, 1).reshape(grid_x.shape)
places = torch.stack([torch.tensor([0.0, 1.0]), grid[on_grid.max(1).argmin()], torch.tensor([1.0, -0.5])])

figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
ax.contourf(grid_x, grid_y, region, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#9CC9E6", "#DADADA", "#F8DA98"])
for label, colour, marker in [(0, BLUE, "o"), (1, "#B36B00", "^")]:
    of_class = x[y == label]
    ax.scatter(of_class[:, 0], of_class[:, 1], s=14, c=colour, marker=marker, linewidths=0, label=f"class {label}")
ax.scatter(places[:, 0], places[:, 1], s=260, c="white", edgecolors="black", zorder=3)
for name, (across, up) in zip("ABC", places.tolist(), strict=True):
    ax.text(across, up, name, ha="center", va="center", fontweight="bold", zorder=4)
ax.fill_between([], [], color="#DADADA", label="abstains")
ax.set(xlabel="first feature", ylabel="second feature", title="Decision regions, with abstention", aspect="equal")
ax.legend(loc="upper right", framealpha=0.9)
plt.show()

# %%
# Far from all points, nothing keeps the network from being confident, and a certificate is only about points like those
# of the calibration set. Models made by ``SquadClassifier`` and ``squad fit`` refer rows that are unlike the training
# rows; in your own loop, that check is up to you.

far = torch.tensor([[-20.0, 20.0], [20.0, -20.0]])
for (across, up), confidence in zip(far.tolist(), predict(far).max(1), strict=True):
    print(f"confidence at ({across:g}, {up:g}), far from all training points: {confidence:.3f}")

# %%
# Looking inside: posterior distributions
# ---------------------------------------
# ``layer.posterior(x)`` is the distribution of every latent given the input, in closed form. Which latents matter?
# The *mutual information* of a latent and the input is 0 if it ignores the input, and at most the logarithm of the
# number of bins.

first = net[0]
assert isinstance(first, squad.SquadLinear)
with torch.no_grad():
    posterior = first.posterior(x_new)
    information = squad.mutual_information(posterior)
    at_places = first.posterior(places)
order = information.argsort(descending=True)
print(f"mutual information: {information.min():.2f} to {information.max():.2f} nats; at most {np.log(11):.2f}")

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.bar(np.arange(16), information[order], color=[ORANGE] * 3 + [BLUE] * 13)
ax.axhline(np.log(11), color=GREY, linestyle="--", linewidth=1.5)
ax.text(15.4, np.log(11) - 0.04, "maximum", color=GREY, ha="right", va="top")
ax.set(xlabel="latent of the first layer (number)", ylabel="mutual information (nats)")
ax.set_xticks(np.arange(16), [str(int(k)) for k in order])
plt.show()

# %%
# The three most informative latents (orange above) at the points A, B and C. Each line with a dot is one of the 11
# values that the layer has learned, and its height is the probability of that value; some values lie close together.
# The number above a panel is the entropy of the distribution: 0 if the value is certain. A latent whose mass moves from
# one end to the other between A and C separates the moons.

figure, axes = plt.subplots(3, 3, figsize=(6.4, 5.4), sharex=True, sharey=True, layout="constrained")
values = at_places.values.detach().expand(at_places.probs.shape)
for line, latent in zip(axes, order[:3], strict=True):
    for ax, place, name, colour in zip(line, range(3), "ABC", (BLUE, GREY, ORANGE), strict=True):
        heights = at_places.probs[place, latent].detach()
        ax.vlines(values[place, latent], 0, heights, color=colour, linewidth=2)
        ax.plot(values[place, latent], heights, "o", color=colour, markersize=4)
        ax.set_ylim(-0.03, None)
        entropy = at_places.entropy()[place, latent]
        ax.set_title(f"{name}, latent {int(latent)}: {entropy:.1f} nats", fontsize=11)
figure.supxlabel("value of the latent")
figure.supylabel("probability")
plt.show()

# %%
# Where samples disagree
# ----------------------
# The same two quantities exist for predictions. The entropy of the averaged class probabilities is the whole
# uncertainty; the *mutual information* of class and sample is the part of it that comes from samples that disagree.
# The rest is what all samples agree on: here the classes overlap.

with torch.no_grad():
    samples_on_grid = []
    for index in range(32):
        with squad.sample_index(index):
            samples_on_grid.append(net(grid).softmax(-1))
stacked = torch.stack(samples_on_grid)
entropy_map = torch.special.entr(stacked.mean(0)).sum(-1)
disagreement = entropy_map - torch.special.entr(stacked).sum(-1).mean(0)
print(f"largest entropy {entropy_map.max():.2f}, largest mutual information {disagreement.max():.2f} nats")

figure, axes = plt.subplots(1, 2, figsize=(6.8, 3.4), sharey=True, layout="constrained")
for ax, map_, title in zip(axes, (entropy_map, disagreement), ("entropy", "mutual information"), strict=True):
    shades = ax.pcolormesh(
        grid_x, grid_y, map_.reshape(grid_x.shape), cmap="cividis", vmin=0, vmax=np.log(2), rasterized=True
    )
    ax.set(title=title, xlabel="first feature", aspect="equal")
axes[0].set_ylabel("second feature")
figure.colorbar(shades, ax=axes, label="nats", shrink=0.7)
plt.show()

# %%
# What to do next
# ---------------
# * ``SquadClassifier`` has this loop, early stopping and ensembles built in, and follows scikit-learn's rules.
# * ``squad inspect`` does this analysis for any saved model; see
#   :doc:`Inspecting latent variables </guides/inspect>`.
# * Layers take ``members=M`` to train M networks together (batched); see "Many networks at once" in
#   :doc:`Layers for your own network </guides/layers>`.
