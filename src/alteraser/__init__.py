"""Make a trained recommender forget chosen interactions, fast. The public names are listed in `__init__.pyi`.

They are imported at first use, so that `alteraser --help` does not wait for torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
