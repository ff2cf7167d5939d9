"""Make a trained recommender forget chosen interactions, fast. The public names are listed in `__init__.pyi`.

They are imported at first use, so that `alteraser --help` does not wait for torch.
"""

import os

import lazy_loader

# Threads that wait for the next small kernel by spinning take the cores from whoever works: on a busy machine training
# was sixty times slower for it. OpenMP reads this once, when torch or numba loads it, so it has to stand here.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
