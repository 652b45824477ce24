"""The way of EMF metrics into CloudWatch: a background thread, so that no invocation waits for or fails by it."""

import logging
import threading
from queue import SimpleQueue
from typing import NamedTuple

from localstack.aws.connect import connect_to  # type: ignore[import-not-found]

from . import emf

LOG = logging.getLogger(__name__)


class Output(NamedTuple):
    """What one invocation printed, and whose metrics they are."""

    account: str
    region: str
    text: str


class MetricPublisher:
    """Publishes the metrics of finished invocations, in order, as soon as they are handed over."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Output] = SimpleQueue()
        threading.Thread(target=self._run, name="emf-metrics", daemon=True).start()

    def submit(self, output: Output) -> None:
        """Hand over one invocation's output; returns at once."""
        if '"_aws"' in output.text:
            self._queue.put(output)

    def _run(self) -> None:
        while True:
            output = self._queue.get()
            try:
                cloudwatch = connect_to(aws_access_key_id=output.account, region_name=output.region).cloudwatch
                for namespace, data in emf.batches(emf.extract(output.text)):
                    cloudwatch.put_metric_data(Namespace=namespace, MetricData=data)
            except Exception:
                # The thread serves every function of the cloud: one bad document must not end it.
                LOG.exception("EMF metrics of one invocation are lost")


PUBLISHER = MetricPublisher()
