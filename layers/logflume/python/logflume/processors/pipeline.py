"""The pipeline: a source's processors, compiled, run over one event after the other, in order.

A processor that fails leaves the event as it was before that processor; the event is tagged `_processor_failure`, the
reason is added to `log.processor_failure`, and the processors behind it still run. The tag comes last, so that no
processor removes it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from logflume import paths
from logflume.parsing.interruption import Overrun
from logflume.paths import Document
from logflume.processors.base import Processor, ProcessorFailed, Step, kind

FAILURE_TAG = "_processor_failure"
# Named with dots in one: it can be put whatever the event's own `log` is, and OpenSearch makes no difference.
FAILURE_FIELD = "log.processor_failure"
_MAX_REASON_CHARACTERS = 256


class Outcome(NamedTuple):
    """What became of an event: `dropped_by` a rule (its name, or number and type), or kept, perhaps with failures."""

    dropped_by: str | None = None
    failures: tuple[str, ...] = ()


KEPT = Outcome()


class Pipeline:
    """Processors compiled once, for any number of events; none of them keeps anything of an event."""

    def __init__(self, processors: Sequence[Processor]) -> None:
        self._steps = [
            (_conditional(processor), getattr(processor, "name", "") or f"{number} {kind(processor)}")
            for number, processor in enumerate(processors, start=1)
        ]

    def run(self, document: Document, reference_ms: int) -> Outcome:
        """Change the document in place. `reference_ms`: the object's LastModified, for dates without a year."""
        failures: list[str] = []
        for step, label in self._steps:
            try:
                if step(document, reference_ms):
                    return Outcome(label)
            except Overrun:
                failures.append(f"{label}: a regex took too long")
            except (ProcessorFailed, paths.Blocked) as error:
                failures.append(f"{label}: {error}"[:_MAX_REASON_CHARACTERS])
        return _flagged(document, failures) if failures else KEPT


def _conditional(processor: Processor) -> Step:
    step, applies = processor.step(), processor.applies()
    if applies is None:
        return step
    return lambda document, reference_ms: applies(document) and step(document, reference_ms)


def _flagged(document: Document, failures: list[str]) -> Outcome:
    tags = document.get("tags")
    own = tags if isinstance(tags, list) else [] if tags is None else [tags]
    document["tags"] = own if FAILURE_TAG in own else [*own, FAILURE_TAG]
    document[FAILURE_FIELD] = failures
    return Outcome(None, tuple(failures))
