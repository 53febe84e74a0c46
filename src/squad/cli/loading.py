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
    """Load a model, with another sampling mode or number of samples if given."""
    from squad.predictor import choose_device, load

    where = choose_device(device)
    predictor = load(model, where, public_key)
    predictor = predictor.uncertified() if uncertified else predictor
    if sampling is None and num_samples is None:
        return predictor
    sampling = predictor.sampling if sampling is None else sampling
    num_samples = predictor.num_samples if num_samples is None else num_samples
    return predictor.with_sampling(*predictor.config.check_sampling(sampling, num_samples))


def rows_text(count: int) -> str:
    """Return ``1 row`` or ``2,000 rows``."""
    return f"{count:,} row{'' if count == 1 else 's'}"
