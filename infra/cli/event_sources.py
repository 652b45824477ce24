"""Event sources: the two taps of a deployment. The queue feeds the reader, the stream feeds the indexer.

A tap that is off invokes nothing more; invocations that have begun go on to their end, and what comes meanwhile waits
in queue and stream.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError
from infra.cli.terminal import duration

if TYPE_CHECKING:
    from mypy_boto3_lambda.type_defs import EventSourceMappingConfigurationResponseTypeDef as Mapping

Tap = Literal["reader", "indexer"]

ON, OFF = "Enabled", "Disabled"
POLL_S = 1.0
# Lambda takes up to about a minute to switch an event source.
PATIENCE_S = 240.0


class EventSources:
    """Looks at a deployment's event sources and switches them."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployment = deployment
        self._sleep = sleep
        self._clock = clock

    def get(self, tap: Tap) -> "Mapping":
        """The event source mapping as Lambda describes it now. Raises `CommandError` where there is none."""
        title = tap.capitalize()
        if uuid := self._deployment.outputs.get(f"{title}EventSource"):
            return self._deployment.lambda_.get_event_source_mapping(UUID=uuid)
        # The stack is of a version without these outputs.
        function = self._deployment.outputs.get(f"{title}Function", "")
        mappings = self._deployment.lambda_.list_event_source_mappings(FunctionName=function)["EventSourceMappings"]
        if len(mappings) != 1:
            raise CommandError(f"the {tap} {function!r} has {len(mappings)} event sources instead of one: deploy again")
        return self._deployment.lambda_.get_event_source_mapping(UUID=mappings[0]["UUID"])

    def switch(self, tap: Tap, state: str) -> bool:
        """Bring the tap to `ON` or `OFF` and wait until it is; whether anything had to be done.

        Raises `CommandError` where it takes another state, or none within `PATIENCE_S`.
        """
        from botocore.exceptions import ClientError

        asked, end = False, self._clock() + PATIENCE_S
        while (mapping := self.get(tap))["State"] != state:
            if not asked and mapping["State"] in (ON, OFF):
                try:
                    self._deployment.lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=state == ON)
                    asked = True
                    continue
                except ClientError as error:
                    if error.response["Error"]["Code"] != "ResourceInUseException":  # another change is under way
                        raise
            if self._clock() > end:
                raise CommandError(
                    f"the {tap}'s event source is {mapping['State']!r} after {duration(PATIENCE_S)}, not {state!r}: "
                    "the same command looks again"
                )
            self._sleep(POLL_S)
        return asked
