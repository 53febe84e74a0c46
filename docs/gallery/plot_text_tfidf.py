"""Text with TF-IDF
================

*My inputs are texts, and I have a few thousand of them. How do I get a classifier that knows when to abstain?*

Two classifiers on the same words: logistic regression on TF-IDF, certified by :func:`squad.certify`, and a
``SquadClassifier`` on TF-IDF that was compressed to a hundred numbers. Both are certified: of the texts that they
accept, at most 10 % are wrong, at confidence level 95 %. And both get texts of another kind, to see what happens.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline

import squad
from squad.metrics import aurc, paired_difference, risk_at_coverage

plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "0.45"  # safe for colour-blind readers
# sphinx_gallery_thumbnail_number = 1

# %%
# The texts
# ---------
# Real texts that are already on your disk: docstrings of five Python libraries. The class is the library that a
# docstring is from. Each text is the first 40 words, without the names of the libraries.

LIBRARIES = {"numpy": "numpy", "scipy": "scipy", "sklearn": "scikit-learn", "pandas": "pandas", "networkx": "networkx"}
NAMES = re.compile("|".join([*LIBRARIES, *LIBRARIES.values(), "matplotlib"]), re.IGNORECASE)


def docstrings(library: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the first words of each public docstring of an installed library, without importing it."""
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    for file in sorted(root.rglob("*.py")):
        module = file.relative_to(root.parent)
        if any(part.startswith("test") for part in module.parts):
            continue
        found: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
        while found:
            node = found.pop()
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                words = [word for word in (ast.get_docstring(node) or "").split() if word.strip("-=")][:40]
                if len(words) >= 5:
                    yield module.as_posix(), NAMES.sub("", " ".join(words))
            if isinstance(node, ast.Module | ast.ClassDef):
                found += node.body


rows = [(name, *row) for library, name in LIBRARIES.items() for row in docstrings(library)]
texts = pd.DataFrame(rows, columns=["library", "module", "text"])
print(f"{len(texts):,} docstrings")

# %%
# Libraries copy docstrings, within themselves and from each other. A copy in the training set and another one in the
# test set would be leakage, so duplicates are dropped, and texts that occur in several libraries altogether.

libraries_of = texts.groupby("text")["library"].nunique()
texts = texts[texts["text"].map(libraries_of) == 1].drop_duplicates("text")
print(
    f"{len(texts):,} different ones:",
    ", ".join(f"{count:,} {name}" for name, count in texts.value_counts("library").items()),
)

# %%
# Split by module
# ---------------
# Docstrings of one module resemble each other: they share authors, a subject and whole phrases. If texts were split at
# random, the test would be too easy. So modules are split: 40 % for training, and 30 % each for calibration and test.
#
# A guarantee counts independent cases. For calibration and test, one text per module is drawn, so that "a new case" is
# a text from a module that the model has not seen.


def split_modules(frame: pd.DataFrame, fraction: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split rows such that all rows of a module land on the same side."""
    one, other = next(GroupShuffleSplit(1, train_size=fraction, random_state=0).split(frame, groups=frame["module"]))
    return frame.iloc[one], frame.iloc[other]


def one_per_module(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw one text per module."""
    return frame.sample(frac=1, random_state=0).drop_duplicates("module")


train, rest = split_modules(texts, 0.4)
calibration, test = map(one_per_module, split_modules(rest, 0.5))
print(f"{len(train):,} texts for training, {len(calibration)} for calibration, {len(test)} for the test")

# %%
# Logistic regression, certified in four lines
# --------------------------------------------
# TF-IDF has a column per word: how often it occurs in the text, weighted down if it occurs in many texts. Such a table
# is wide and almost empty, and a linear model is hard to beat on it.

RISK, DELTA = 0.1, 0.05
linear = make_pipeline(TfidfVectorizer(min_df=2, sublinear_tf=True), LogisticRegression(C=10, max_iter=1000))
linear.fit(train["text"], train["library"])

probabilities = linear.predict_proba(calibration["text"])
correct = linear.classes_[probabilities.argmax(1)] == calibration["library"]
certificate = squad.certify(probabilities.max(1), correct, risk=RISK, delta=DELTA, attempt=1)
print(certificate.headline)

# %%
# (``attempt=1`` uses 90 % of delta, as the next model does by itself, so that both certificates are alike. For this
# example, the risk, the libraries and the number of words were chosen after trying others on the same texts: with the
# first paragraph alone, or at a risk of 2 %, little could be certified. So its guarantees are only an illustration. On
# your own data, choose the risk before you look.)
#
# SQUAD on compressed TF-IDF
# --------------------------
# A neural network wants fewer columns, with numbers in all of them. ``TruncatedSVD`` makes them: a hundred directions
# in which the texts differ most (latent semantic analysis). The steps before the classifier are fitted on training
# texts only, and ``fit`` gets the modules as ``groups``, so that its validation rows are from other modules, too.

compress = make_pipeline(TfidfVectorizer(min_df=2, sublinear_tf=True), TruncatedSVD(100, random_state=0))
x_train = compress.fit_transform(train["text"])
network = squad.SquadClassifier(members=5, max_epochs=20, device="cpu", random_state=0)
network = network.fit(x_train, train["library"], groups=train["module"])

# %%
# ``groups`` is checked again when certifying: a module that the network was trained on would be refused.

certified = network.certify(
    compress.transform(calibration["text"]), calibration["library"], RISK, DELTA, groups=calibration["module"]
)
assert certified.certificate is not None
print(certified.certificate.headline)

# %%
# Which one is better?
# --------------------
# *Coverage* is the fraction of texts that are accepted, *selective risk* the error rate among them. AURC, the area
# under the risk–coverage curve, is the mean selective risk over all coverages (lower is better). Both models predict
# the same texts, so that the interval of the difference is paired.

label = test["library"].to_numpy()
probabilities = linear.predict_proba(test["text"])
answer = certified.answer(compress.transform(test["text"]))
confidence = {"logistic regression": probabilities.max(1), "SQUAD": answer.confidence}
predicted = {"logistic regression": linear.classes_[probabilities.argmax(1)], "SQUAD": answer.label}
accepted = {"logistic regression": certificate.accepts(probabilities.max(1)), "SQUAD": answer.accepted}

for name in predicted:
    right, chosen = predicted[name] == label, accepted[name]
    print(f"{name}: {100 * right.mean():.1f} % of {len(label)} test texts correct")
    print(f"    AURC {aurc(confidence[name], right):.4f}")
    print(f"    accepts {chosen.sum()} ({100 * chosen.mean():.1f} %), of which {(~right[chosen]).sum()} wrong")

first, second = ((confidence[name], predicted[name] == label) for name in predicted)
gap = paired_difference(aurc, first, second)
clear = "does not contain 0" if gap.low > 0 or gap.high < 0 else "contains 0"
print(f"AURC of SQUAD minus that of logistic regression: {gap.value:+.4f}")
print(f"    95 % interval {gap.low:+.4f} to {gap.high:+.4f}, which {clear}")

# %%
# A dot may lie above the dotted line: the guarantee is about all new texts, and these are a sample. Usually it lies
# below, because certification has to leave a margin for chance.

figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
coverages = np.linspace(0.05, 1, 96)
for name, colour, style in (("logistic regression", BLUE, "--"), ("SQUAD", VERMILION, "-")):
    right, chosen = predicted[name] == label, accepted[name]
    curve = [risk_at_coverage(confidence[name], right, coverage) for coverage in coverages]
    ax.plot(100 * coverages, 100 * np.array(curve), style, color=colour, linewidth=2.2, label=name)
    if chosen.any():
        ax.plot(100 * chosen.mean(), 100 * (~right[chosen]).mean(), "o", color=colour, markersize=10)
ax.plot([], [], "o", color=GREY, markersize=10, label="certified threshold")
ax.axhline(100 * RISK, color=GREY, linewidth=1, linestyle=":")
ax.text(100, 100 * RISK + 0.4, f"risk {100 * RISK:g} %", color=GREY, ha="right")
ax.set(xlabel="coverage (% of test texts)", ylabel="selective risk (%)", xlim=(0, 101), ylim=(0, None))
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# Accepted and referred texts
# ---------------------------
# The first two texts of each kind: accepted by SQUAD and correct, accepted and wrong, and referred to a reviewer. Would
# you have known better? Functions with the same purpose exist in several libraries.

guess, sure, chosen = predicted["SQUAD"], confidence["SQUAD"], accepted["SQUAD"]
right = guess == label
for kind, mask in (("accepted, correct", chosen & right), ("accepted, wrong", chosen & ~right), ("referred", ~chosen)):
    print(f"{kind}: {mask.sum()} texts")
    for row in np.flatnonzero(mask)[:2]:
        print(f"    {guess[row]}? is {label[row]} (confidence {sure[row]:.2f})")
        print("        " + textwrap.shorten(test["text"].iloc[row], 72, placeholder=" …"))

# %%
# Texts of another kind
# ---------------------
# A certificate is about texts like those of the calibration set. What happens to others? Docstrings of a library that
# is none of the five classes; everyday sentences; and test texts with the letters of each word in reverse, so that the
# vocabulary has hardly any of their words.

everyday = [
    "The train to the coast leaves at nine, and it is usually late.",
    "Could you bring two loaves of bread and some apples on your way home?",
    "My grandmother planted these roses forty years ago.",
    "It rained all night, so the children stayed indoors and read.",
    "The committee will meet again on Thursday to discuss the school's roof.",
    "He plays the cello rather well, but only when nobody listens.",
]
unknown = pd.DataFrame(docstrings("matplotlib"), columns=["module", "text"]).drop_duplicates("text")
kinds = {
    "test texts": test["text"].tolist(),
    "unknown library": one_per_module(unknown)["text"].tolist(),
    "everyday sentences": everyday,
    "words in reverse": [" ".join(word[::-1] for word in text.split()) for text in test["text"]],
}
report = {}
for kind, inputs in kinds.items():
    known = compress[0].transform(inputs).getnnz(1)  # number of different words that the vocabulary has
    answer = certified.answer(compress.transform(inputs))
    report[kind] = {
        "texts": len(inputs),
        "known words": known.mean(),
        "logistic": 100 * certificate.accepts(linear.predict_proba(inputs).max(1)).mean(),
        "SQUAD": 100 * answer.accepted.mean(),
        "SQUAD, 5+ known words": 100 * (answer.accepted & (known >= 5)).mean(),
        "novel": 100 * answer.novel.mean(),
    }
table = pd.DataFrame(report).T
print("known words: mean number per text; the columns after it: % of the texts that are accepted, or novel")
print(table.to_string(float_format="{:.1f}".format, formatters={"texts": "{:.0f}".format}))

# %%
# "Novel" are rows unlike the training rows, which ``SquadClassifier`` refers whatever their confidence. With TF-IDF,
# this check cannot help much: every row has length 1, whether the vocabulary has twenty of its words or one, and a text
# without any known word is a row of zeros, which is not far from the data. A single known word then decides alone, and
# may do so with confidence.
#
# A rule about the text does help: refer texts with fewer than five known words. It needs no labels. But it is part of
# the model, so put it in place before you certify: give such texts the confidence 0 in the calibration set, too.

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
places = np.arange(len(table))
bars = {"logistic": BLUE, "SQUAD": VERMILION, "SQUAD, 5+ known words": "#E69F00"}
for offset, (column, colour) in enumerate(bars.items()):
    drawn = ax.barh(places + 0.27 * (offset - 1), table[column], height=0.25, color=colour, label=column)
    ax.bar_label(drawn, fmt="%.0f", padding=3, fontsize=10)
ax.set(yticks=places, xlabel="accepted (% of the texts)", xlim=(0, 1.15 * table[list(bars)].max().max()))
ax.set_yticklabels(table.index)
ax.invert_yaxis()
figure.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# Against an unknown library, the rule does not help: its texts have plenty of known words. What is left is confidence,
# and for a class that the model does not know, no threshold has a guarantee.
#
# What to do next
# ---------------
# * On sparse text, start with logistic regression. Compare the models on validation rows, and certify only the one that
#   you choose: here both were certified to show how it is done.
# * Embeddings from a language model are a table of numbers, too: pass them to ``SquadClassifier`` without the SVD.
# * Save the vectorizer and the SVD with the model: ``certified.save`` stores the network and its certificate, but not
#   the steps before it.
# * Collect texts that your model is not made for but may be given, and make the last table for them.
