"""The summary of a predictor that notebooks show."""

import html
from typing import TYPE_CHECKING

from squad.printable import printable

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["predictor_html"]

#: Maximum number of classes listed, and of characters of each.
MAX_CLASSES_SHOWN, MAX_NAME = 8, 60


def predictor_html(predictor: "Predictor") -> str:
    """Return an HTML fragment: a table of what the model is, and its certificate."""
    sizes = (predictor.network.in_features, *predictor.config.hidden, len(predictor.classes))
    classes = [_short(str(name)) for name in predictor.classes[:MAX_CLASSES_SHOWN]]
    more = len(predictor.classes) - len(classes)
    rows = predictor.record.get("rows", {})
    facts = {
        "network": f"{predictor.config.name}, {' - '.join(map(str, sizes))}",
        "members": f"{predictor.members}",
        "sampling": f"{predictor.num_samples} {predictor.sampling} samples",
        "classes": ", ".join(classes) + (f" and {more:,} more" if more > 0 else ""),
        "training rows": f"{rows['training']:,}" if isinstance(rows.get("training"), int) else "",
        "certificate": "none: no prediction is guaranteed" if predictor.certificate is None else "",
    }
    left = 'style="text-align:left"'
    cells = "".join(
        f"<tr><th {left}>{name}</th><td {left}>{_escape(value)}</td></tr>" for name, value in facts.items() if value
    )
    certificate = "" if predictor.certificate is None else predictor.certificate._repr_html_()
    return f"<div><table><tbody>{cells}</tbody></table>{certificate}</div>"


def _short(name: str) -> str:
    """Return a class name of at most ``MAX_NAME`` characters."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."


def _escape(text: str) -> str:
    """Return text for HTML, without control characters and marks of writing direction."""
    return html.escape(printable(text, keep=""))
