"""This suite compiles the Triton kernels; the other suites run them in Triton's interpreter."""

import os
import sys

import torch

if torch.cuda.is_available() and "triton" not in sys.modules:
    os.environ["TRITON_INTERPRET"] = "0"
