"""An SQS event source's MaximumConcurrency, which LocalStack accepts and ignores: it sends one batch after another."""

import logging
import threading
from typing import Any

from localstack.services.lambda_.event_source_mapping.esm_worker import EsmWorker  # type: ignore[import-not-found]
from localstack.services.lambda_.event_source_mapping.pollers.sqs_poller import (  # type: ignore[import-not-found]
    SqsPoller,
)

LOG = logging.getLogger(__name__)


def honour_maximum_concurrency() -> None:
    """Give every SQS event source that has a ScalingConfig as many invocations at once as it allows."""
    original = EsmWorker.__init__

    def initialise(worker: Any, esm_config: Any, poller: Any, *arguments: Any, **settings: Any) -> None:
        original(worker, esm_config, poller, *arguments, **settings)
        maximum = (esm_config.get("ScalingConfig") or {}).get("MaximumConcurrency")
        if maximum and isinstance(poller, SqsPoller):
            _work_concurrently(poller, maximum)

    EsmWorker.__init__ = initialise


def _work_concurrently(poller: Any, maximum: int) -> None:
    slots = threading.Semaphore(maximum)
    poll, handle = poller.poll_events, poller.handle_messages

    def poll_when_there_is_room() -> None:
        # Only this thread takes slots, so the one that is free now still is when messages come: none waits received.
        with slots:
            pass
        poll()

    def handle_and_free(messages: Any) -> None:
        try:
            handle(messages)
        except Exception:
            # As LocalStack's own poller does: the messages come back when their visibility ends.
            LOG.exception("a batch of messages was not handled")
        finally:
            slots.release()

    def hand_over(messages: Any) -> None:
        slots.acquire()
        threading.Thread(target=handle_and_free, args=(messages,), name="sqs-batch", daemon=True).start()

    poller.poll_events = poll_when_there_is_room
    poller.handle_messages = hand_over
