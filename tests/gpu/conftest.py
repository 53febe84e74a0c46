"""This suite compiles Triton's kernels, which the others run in its interpreter."""

import os
import sys

import torch

if torch.cuda.is_available() and "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "0"
