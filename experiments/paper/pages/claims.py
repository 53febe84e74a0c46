"""All claims of the paper, by the page that has their measurements."""

from collections.abc import Callable

from experiments.paper.pages import (
    bin_claims,
    depth_claims,
    latent_claims,
    sample_claims,
    table1_claims,
    table2_claims,
    table3_claims,
)
from experiments.paper.pages.claim import Claim
from experiments.paper.sources import Sources

__all__ = ["CLAIMS", "all_claims"]


def _networks(sources: Sources) -> list[Claim]:
    """Return the claims about the networks themselves."""
    return [
        sample_claims.fewer_samples_on_fashion_mnist(sources),
        bin_claims.quantization(sources),
        bin_claims.bottleneck(sources),
        bin_claims.cost(sources),
        depth_claims.spread(sources),
        depth_claims.depth(sources),
        latent_claims.modes(sources),
        latent_claims.shapes(sources),
        latent_claims.activation(sources),
    ]


#: Functions that judge the claims of each page.
CLAIMS: dict[str, Callable[[Sources], list[Claim]]] = {
    "table1": table1_claims.claims,
    "table2": table2_claims.claims,
    "table3": table3_claims.claims,
    "networks": _networks,
}


def all_claims(sources: Sources) -> list[tuple[str, Claim]]:
    """Return all claims with the file names of their pages."""
    return [(f"{page}.md", claim) for page, judge_page in CLAIMS.items() for claim in judge_page(sources)]
