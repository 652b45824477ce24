"""Backoff: how long to pause before trying again."""

import random


def full_jitter(attempt: int, first_s: float, max_s: float) -> float:
    """Seconds between 0 and an exponentially growing ceiling; `attempt` counts from 0.

    Full jitter spreads the load best when many clients were refused at once (AWS Architecture Blog, "Exponential
    Backoff And Jitter").
    """
    return random.uniform(0, min(max_s, first_s * 2**attempt))
