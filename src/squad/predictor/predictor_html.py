"""The summary of a predictor that notebooks show."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from squad.predictor.predictor import Predictor

__all__ = ["predictor_html"]

#: Maximum number of classes listed.
MAX_CLASSES_SHOWN = 8


def predictor_html(predictor: "Predictor") -> str:
    """Return an HTML fragment: a table of what the model is, and its certificate."""
    sizes = (predictor.network.in_features, *predictor.config.hidden, len(predictor.classes))
    classes = [str(name) for name in predictor.classes[:MAX_CLASSES_SHOWN]]
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
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts.items()
        if value
    )
    certificate = "" if predictor.certificate is None else f"<pre>{escape(str(predictor.certificate))}</pre>"
    return f"<div><table><tbody>{cells}</tbody></table>{certificate}</div>"
