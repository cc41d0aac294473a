"""Language models of several vendors behind the one port `loopctl.model.Model`; each needs its extra.

Rules: a provider creates no task, reads no clock and retries nothing: waiting, timing and trying again are the
engine's. What it opens, it closes in the task that opened it, also while that task is being cancelled twice.
"""
