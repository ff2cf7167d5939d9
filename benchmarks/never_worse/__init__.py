"""`python -m benchmarks never-worse`: forgetting must never raise the loss, however well the original was trained.

Every way to forget answers every kind of request, from originals that stopped early, that stopped where training stops
by default, and that went on to their optimum. On the remaining data the loss, by a formula of the benchmark's own, may
rise by no more than rounding. `converged` may be true only where the tolerance is met: for AltEraser's "affected" and
for sessions a share of the gap that the request opened. That share is known where the original is at its optimum. From
any other the promise concerns only the change that the request brings, and a record has the norm of the whole gradient
before and after.
"""
