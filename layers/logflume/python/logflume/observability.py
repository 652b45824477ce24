"""Observability: the functions' structured log and metrics, the same in each."""

import logging
import os

from aws_lambda_powertools import Logger, Metrics

from logflume.environment import variable

# They tell of every request at INFO.
_CHATTY = ("botocore", "opensearch", "urllib3")


def observe() -> tuple[Logger, Metrics]:
    """The function's logger, and its metrics with the deployment as a dimension: several may share an account."""
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    metrics = Metrics()
    metrics.set_default_dimensions(deployment=variable("DEPLOYMENT"))
    logger = Logger()
    if level := os.environ.get("POWERTOOLS_LOG_LEVEL"):
        # Powertools prefers Lambda's own level, which has to stay low enough for the metrics.
        logging.getLogger(logger.name).setLevel(level)
    return logger, metrics
