"""Descent: how one object comes to its lineage while its first steps are read: found, proved, or its own."""

from logflume.batch import Header
from logflume.errors import LogflumeError
from logflume.ledger import Position
from logflume.limits import STEP_BYTES
from logflume.lineage import Ancestor, Lineage, LineageBusyError, Lineages, chained, content_at, fingerprint
from logflume.steps import Step


class UnprovedError(LogflumeError):
    """The object does not continue its candidate: it has to be delivered from the start, under its own lineage."""

    reason = "unproved"


class Descent:
    """Follows one pass over an object, step by step, from a position on.

    `lineage` is None until it is decided; nothing may be delivered before. `mark` is the object's fingerprint, empty
    for one that has none or was found to be no continuation.
    """

    def __init__(self, lineages: Lineages, header: Header, start: Position) -> None:
        self.chain = start.chain
        self.mark = start.fingerprint
        self.lineage = Lineage(start.lineage, start.lineage_modified_ms) if start.lineage else None
        self._lineages = lineages
        self._header = header
        self._candidate: Ancestor | None = None
        self._proving = start.edge > 0 and self.lineage is None  # an earlier reader had found one
        self._block = self._before = (start.edge, start.chain, b"")

    def decide(self, step: Step) -> Lineage | None:
        """The lineage, as soon as this step settles it. Raises `UnprovedError`, `LineageBusyError`."""
        header = self._header
        if self._candidate is None:
            self.mark = self.mark or fingerprint(header.bucket, header.key, step.data)
            found = self._find()
            if isinstance(found, Lineage):
                if found.base < step.start:
                    raise UnprovedError("what it was to continue is gone")
                self.lineage = found
                return found
            self._candidate = found
        content = self._candidate.content
        if step.start < content.start:
            return None
        if step.start > content.start or not content.matches(self.chain, step.data):
            raise UnprovedError(f"differs from {self._candidate.owner} before byte {content.end}")
        self.lineage = self._lineages.inherit(self.mark, self._candidate, header.object_id)
        if self.lineage is None:
            raise LineageBusyError(self._candidate.owner, 0)
        return self.lineage

    def add(self, step: Step) -> None:
        """The step is read."""
        self._before, self._block = self._block, (step.start, self.chain, step.data)
        if len(step.data) == STEP_BYTES:
            self.chain = chained(self.chain, step.data)

    @property
    def unproved(self) -> bool:
        """Whether a candidate was found that the steps so far neither prove nor refute, be there none any more."""
        return self.lineage is None and (self._candidate is not None or self._proving)

    @property
    def end(self) -> Step:
        """A step without a byte, behind those so far: where the object ends, what it continues may end as well."""
        start, _, block = self._block
        return Step(start + len(block), b"", None, 0)

    def bequeath(self, end: int) -> None:
        """Leave to the lineage what was delivered, once the object has ended there."""
        # An event that was cut by damage may have begun in the block before.
        content = content_at(*self._block, end) or content_at(*self._before, end)
        if self.mark and content:
            self._lineages.record(self.mark, self._header.object_id, content)

    def _find(self) -> Lineage | Ancestor:
        own = Lineage(self._header.object_id, self._header.modified_ms)
        return self._lineages.find(self.mark, own.id, own.modified_ms) if self.mark else own
