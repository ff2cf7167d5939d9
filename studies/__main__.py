"""`python -m studies`: the paper's evaluation and ours."""

from __future__ import annotations

from studies.commands import main

if __name__ == "__main__":
    main()
