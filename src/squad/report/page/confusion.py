"""Confusion matrices of all, accepted and referred cases, and the most frequent confusions."""

from collections.abc import Sequence

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import count, percent
from squad.report.report_data import ModelReport

__all__ = ["confusion_matrices", "distinct_names"]

#: Maximum number of classes of a matrix; with more, only the most frequent confusions are listed.
MAX_CLASSES = 30
#: From this number of classes on, the most frequent confusions are listed too.
MIN_CLASSES_LISTED = 5
#: Maximum number of confusions listed.
MAX_LISTED = 8
#: Longest name of a class in the head of a column and of a row; longer ones are cut.
MAX_NAME, MAX_ROW_NAME = 14, 32


def confusion_matrices(index: int, model: ModelReport) -> Markup:
    """Render the confusion matrices of a model.

    A reader switches between them by radio buttons, without a script; all are printed.

    Args:
        index: Index of the model in the report.
        model: Results of the model.

    Returns:
        The markup.
    """
    matrices = [("all cases", model.confusions.every)]
    if model.confusions.accepted is not None and model.confusions.referred is not None:
        matrices += [("accepted cases", model.confusions.accepted), ("referred cases", model.confusions.referred)]
    parts: list[Markup | None] = [element("h4", "Confusion matrix")]
    if len(model.classes) <= MAX_CLASSES:
        parts.append(_tabs(index, model.classes, matrices))
    else:
        parts.append(element("p", f"Not shown for {count(len(model.classes))} classes."))
    if len(model.classes) >= MIN_CLASSES_LISTED:
        parts.append(_most_frequent(model))
    return join(*parts)


def _tabs(index: int, classes: list[str], matrices: list[tuple[str, list[list[int]]]]) -> Markup:
    children = []
    for number, (name, matrix) in enumerate(matrices):
        total = sum(map(sum, matrix))
        if len(matrices) > 1:
            choice = f"confusion{index}-{number}"
            children.append(
                element("input", type="radio", name=f"confusion{index}", id=choice, checked=number == 0, class_="tab")
            )
            children.append(element("label", f"{name} ({count(total)})", for_=choice))
    panels = [_matrix(name, classes, matrix) for name, matrix in matrices]
    return element(
        "div",
        *children,
        element("div", *panels, class_="panels"),
        class_="tabs",
        role="group",
        aria_label="Cases of the confusion matrix",
    )


def _matrix(name: str, classes: list[str], matrix: list[list[int]]) -> Markup:
    title = f"Confusion matrix, {name}: true class by row, predicted class by column"
    head = element(
        "tr",
        element("th", "true \\ predicted", scope="col"),
        *_headings(classes, MAX_NAME, "col"),
    )
    rows = []
    for row, (heading, numbers) in enumerate(zip(_headings(classes, MAX_ROW_NAME, "row"), matrix, strict=True)):
        total = max(1, sum(numbers))
        cells = [_cell(number, number / total, row == column) for column, number in enumerate(numbers)]
        rows.append(element("tr", heading, *cells))
    table = element("table", element("caption", title), element("thead", head), element("tbody", *rows))
    return element("div", table, class_="scroll confusion", role="region", tabindex="0", aria_label=title)


def _cell(number: int, fraction: float, correct: bool) -> Markup:
    if not number:
        return element("td", "\u00b7", class_="zero")
    # The square root makes rare confusions visible.
    kind = "correct" if correct else "wrong"
    title = f"{percent(fraction)} of its true class"
    return element("td", count(number), class_=kind, style=f"--weight:{100 * fraction**0.5:.0f}%", title=title)


def _headings(classes: list[str], length: int, scope: str) -> list[Markup]:
    """Render the name of each class as a heading; one that is cut has its full name as a title."""
    short = distinct_names(classes, length)
    return [
        element("th", cut, scope=scope, title=None if cut == name else name)
        for name, cut in zip(classes, short, strict=True)
    ]


def distinct_names(names: Sequence[str], length: int) -> list[str]:
    """Cut long names such that they stay different: at the end, in the middle, or with a number in front.

    Args:
        names: Names, all different.
        length: Largest number of characters, without the number.

    Returns:
        Names in the same order, all different.

    Examples:
        >>> distinct_names(["cat", "tumour of the skin", "tumour of the bone"], 10)
        ['cat', 'tumo… skin', 'tumo… bone']
    """
    half = (length - 1) // 2
    for head, tail in ((length - 1, 0), (half, length - 1 - half)):
        short = [name if len(name) <= length else f"{name[:head]}…{name[len(name) - tail :]}" for name in names]
        if len(set(short)) == len(names):
            return short
    return [f"{number}: {name}" for number, name in enumerate(short, 1)]


def _most_frequent(model: ModelReport) -> Markup | None:
    """List the most frequent confusions, with how many of them are accepted."""
    matrix, accepted = model.confusions.every, model.confusions.accepted
    size = len(model.classes)
    pairs = [(row, column) for row in range(size) for column in range(size) if row != column and matrix[row][column]]
    pairs.sort(key=lambda pair: -matrix[pair[0]][pair[1]])
    if not pairs:
        return None
    rows: list[list[object]] = [
        [
            f"{model.classes[row]} predicted as {model.classes[column]}",
            count(matrix[row][column]),
            *([] if accepted is None else [count(accepted[row][column])]),
        ]
        for row, column in pairs[:MAX_LISTED]
    ]
    head = ["confusion", "all cases", *([] if accepted is None else ["accepted"])]
    return plain_table(head, rows, "Most frequent confusions")
