"""Network configurations and constructors by name, and prediction with T samples per network."""

from squad.models.config import (
    CONFIGS,
    DLGMConfig,
    FactorizedSquadConfig,
    MaxoutDropoutConfig,
    MLPConfig,
    NetworkConfig,
    ReluDropoutConfig,
    SquadConfig,
    network_config,
)
from squad.models.networks import Network, Output, build
from squad.models.restore import restore
from squad.models.sampler import Draws, Sampler

__all__ = [
    "CONFIGS",
    "DLGMConfig",
    "Draws",
    "FactorizedSquadConfig",
    "MLPConfig",
    "MaxoutDropoutConfig",
    "Network",
    "NetworkConfig",
    "Output",
    "ReluDropoutConfig",
    "Sampler",
    "SquadConfig",
    "build",
    "network_config",
    "restore",
]
