"""What goes wrong with the local cloud, as one type that carries a message for its user."""

from logflume.errors import LogflumeError


class LocalCloudError(LogflumeError):
    """The message says what is wrong, where to look and what to do."""

    reason = "local_cloud"
