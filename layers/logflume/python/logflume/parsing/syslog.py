"""Syslog: RFC 5424 and RFC 3164 messages to members with ECS names, told apart by the version that follows `<PRI>`.

    <34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 [a@1 x="y"] 'su root' failed       RFC 5424 §6.5
    <34>Oct 11 22:14:15 mymachine su[42]: 'su root' failed for lonvick on /dev/pts/8                  RFC 3164 §5.4
    2003-10-11T22:14:15.003+02:00 mymachine su[42]: 'su root' failed                     rsyslog's own file format

Files mostly lack the `<PRI>`. `timestamp` is the text as it stands: RFC 3164's has neither year nor zone, and only the
caller knows when the object was written.
"""

import re
from typing import Any, Literal

import msgspec

from logflume.errors import ParseFailure

# RFC 5424 §6.2.1, tables 1 and 2; the names are those of syslog.conf.
FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp"),
    *("security", "console", "solaris-cron"),
    *(f"local{number}" for number in range(8)),
)
SEVERITIES = ("emergency", "alert", "critical", "error", "warning", "notice", "informational", "debug")
MAX_PRIORITY = 191

_PRIORITY = r"(?:<(?P<priority>\d{1,3})>)"

# RFC 5424 §6: HEADER SP STRUCTURED-DATA [SP MSG]. Lengths are not enforced: senders exceed them.
_RFC5424 = re.compile(
    _PRIORITY
    + r"""(?P<version>[1-9]\d{0,2})
    [ ](?:-|(?P<timestamp>\S++))
    [ ](?:-|(?P<host>\S++))
    [ ](?:-|(?P<name>\S++))
    [ ](?:-|(?P<process>\S++))
    [ ](?:-|(?P<id>\S++))
    [ ](?:-|(?P<data>(?:\[[^ \]="]++(?:[ ][^ \]="]++="(?:[^"\\]|\\.)*+")*+\])++))
    (?:[ ]\ufeff?(?P<message>.*+))?+
    """,
    re.DOTALL | re.VERBOSE,
)
_ELEMENT = re.compile(r'\[([^ \]="]++)((?:[ ][^ \]="]++="(?:[^"\\]|\\.)*+")*+)\]', re.DOTALL)
_PARAMETER = re.compile(r' ([^ \]="]++)="((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\\]])')  # §6.3.3: before any other character the backslash stands for itself

# RFC 3164 §4.1, and what is really written: no PRI, a year, fractions, ISO 8601. TAG is what a colon or [pid] ends.
_RFC3164 = re.compile(
    _PRIORITY
    + r"""?(?:
      (?P<timestamp>
          (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]{1,2}\d{1,2}[ ](?:\d{4}[ ])?\d\d:\d\d:\d\d(?:\.\d++)?
        | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d++)?(?:Z|[+-]\d\d:?\d\d)?
      )
      [ ]++(?:(?P<host>[^\s:\[\]]++|[0-9A-Fa-f]*+:[0-9A-Fa-f.]*+:[0-9A-Fa-f:.]*+)[ ]++)?+
    )?
    (?:(?P<name>[^\s:\[\]]++)(?:\[(?P<process>[^\]\s]*+)\]:?+|:)(?:[ ]|\Z))?
    (?P<message>.*+)
    """,
    re.DOTALL | re.VERBOSE,
)


_NAMES = {
    "timestamp": "timestamp",
    "host": "host.hostname",
    "name": "process.name",
    "version": "log.syslog.version",
    "id": "log.syslog.msgid",
    "message": "message",
}


class Syslog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="syslog"):
    """Which syslog is read; `auto` takes each event as what it looks like."""

    format: Literal["auto", "rfc3164", "rfc5424"] = "auto"


class _Parser:
    def __init__(self, config: Syslog) -> None:
        patterns = {"rfc5424": [_RFC5424], "rfc3164": [_RFC3164], "auto": [_RFC5424, _RFC3164]}
        self._patterns = patterns[config.format]

    def parse(self, event: bytes, _context: str) -> dict[str, Any]:
        text = event.decode()
        for pattern in self._patterns:
            if (found := pattern.fullmatch(text)) and (found["priority"] or found["timestamp"]):
                return _members(found.groupdict())
        raise ParseFailure("no_syslog", "neither <PRI> nor a timestamp begins the event")


def _members(found: dict[str, str | None]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if priority := found["priority"]:
        members |= _priority(int(priority))
    for part, name in _NAMES.items():
        if value := found.get(part):
            members[name] = value
    if process := found["process"]:
        number = process.isdecimal() and len(process) < 19
        members |= {"process.pid": int(process)} if number else {"log.syslog.procid": process}
    if data := found.get("data"):
        members["log.syslog.structured_data"] = _structured(data)
    return members


def _priority(priority: int) -> dict[str, Any]:
    """PRI is eight times the facility, plus the severity (RFC 5424 §6.2.1)."""
    if priority > MAX_PRIORITY:
        raise ParseFailure("bad_priority", f"<{priority}>, the highest is <{MAX_PRIORITY}>")
    facility, severity = divmod(priority, 8)
    return {
        "log.syslog.priority": priority,
        "log.syslog.facility.code": facility,
        "log.syslog.facility.name": FACILITIES[facility],
        "log.syslog.severity.code": severity,
        "log.syslog.severity.name": SEVERITIES[severity],
    }


def _structured(data: str) -> dict[str, dict[str, Any]]:
    """SD-ID → PARAM-NAME → value, a list where the name is repeated (§6.3)."""
    elements: dict[str, dict[str, Any]] = {}
    for identifier, parameters in _ELEMENT.findall(data):
        element = elements.setdefault(identifier, {})
        for name, escaped in _PARAMETER.findall(parameters):
            value = _ESCAPE.sub(r"\1", escaped)
            known = element.get(name)
            element[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return elements


def build(config: Syslog) -> _Parser:
    """The parser of this configuration. `ParseFailure` has the reasons `no_syslog` and `bad_priority`."""
    return _Parser(config)
