"""What goes wrong with a command, as one type that carries a message for its user."""

from logflume.errors import LogflumeError


class CommandError(LogflumeError):
    """One line that says what is wrong and what to do; the command ends with this exit status."""

    reason = "command"
    exit_status = 1


class CannotRun(CommandError):
    """The command could not begin, where its status 1 says that it found something."""

    exit_status = 2


class OpenSearchUnreachable(CommandError):
    """OpenSearch does not answer now; it may again."""

    reason = "opensearch_unreachable"
