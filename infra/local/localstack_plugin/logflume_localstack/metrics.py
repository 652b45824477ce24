"""The way of metrics into CloudWatch: a background thread, so that no invocation waits for or fails by it."""

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import NamedTuple

from localstack.aws.connect import connect_to  # type: ignore[import-not-found]

from . import emf

LOG = logging.getLogger(__name__)


class Output(NamedTuple):
    """What one invocation printed, what else is known in numbers, and whose metrics they are."""

    account: str
    region: str
    text: str = ""
    data: tuple[emf.NamespacedDatum, ...] = ()


class MetricPublisher:
    """Publishes metrics, such as those of finished invocations, in order, as soon as they are handed over."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Output] = SimpleQueue()
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def submit(self, output: Output) -> None:
        """Hand over the output of an invocation, or data from elsewhere; returns at once."""
        if output.data or '"_aws"' in output.text:
            self._queue.put(output)

    def _run(self) -> None:
        while True:
            output = self._queue.get()
            try:
                cloudwatch = connect_to(aws_access_key_id=output.account, region_name=output.region).cloudwatch
                for namespace, data in emf.batches([*output.data, *emf.extract(output.text)]):
                    cloudwatch.put_metric_data(Namespace=namespace, MetricData=data)
            except Exception:
                # The thread serves the whole cloud: one bad document must not end it.
                LOG.exception("metrics are lost")


def datum(
    namespace: str, name: str, value: float, unit: str, dimensions: Mapping[str, str], when: datetime | None = None
) -> emf.NamespacedDatum:
    """One value as PutMetricData takes it; by default it happened now."""
    return namespace, {
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": text} for key, text in dimensions.items()],
        "Timestamp": when or datetime.now(UTC),
        "Value": value,
        "Unit": unit,
    }


PUBLISHER = MetricPublisher()
