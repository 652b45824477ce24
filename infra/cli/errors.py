"""What goes wrong with a command, as one type that carries a message for its user."""

from logflume.errors import LogflumeError


class CommandError(LogflumeError):
    """One line that says what is wrong and what to do; the command ends with exit status 1."""

    reason = "command"


class OpenSearchUnreachable(CommandError):
    """OpenSearch does not answer now; it may again."""

    reason = "opensearch_unreachable"
