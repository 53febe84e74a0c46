"""Load a model for predict and evaluate, and count rows in messages."""

from pathlib import Path
from typing import Any

__all__ = ["load_for_prediction", "rows_text"]


def load_for_prediction(
    model: Path,
    sampling: str | None,
    num_samples: int | None,
    device: str,
    uncertified: bool = False,
    public_key: Path | None = None,
) -> Any:
    """Load a model, with another sampling mode or number of samples if given.

    Args:
        model: Folder of the model.
        sampling: Sampling mode; None: the model's.
        num_samples: Number of samples; None: the model's.
        device: Device to compute on.
        uncertified: Drop the certificate, which is valid for the model's own sampling mode only.
        public_key: Refuse a model that is not signed with this key.
    """
    from squad.predictor import load

    predictor = load(model, device, public_key)
    return (predictor.uncertified() if uncertified else predictor).with_sampling(sampling, num_samples)


def rows_text(count: int) -> str:
    """Return ``1 row`` or ``2,000 rows``."""
    return f"{count:,} row{'' if count == 1 else 's'}"
