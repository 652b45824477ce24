"""Runs DynamoDB Local on loopback: `python dynamodb_local_main.py LIBRARIES JVM PORT`, in LocalStack's environment.

DynamoDB Local has no option for the address and listens on all of them. Its server is an ordinary Jetty, so it is
made as its own main program makes it, told the host, and then started: no compiler, no agent.
"""

import sys
import tempfile
from pathlib import Path

import jpype  # type: ignore[import-not-found]

HEAP = "256m"


def main(libraries: Path, jvm: str, port: str) -> None:
    """Serve until the process is ended."""
    jpype.startJVM(
        jvm,
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        # Without traces in the machine's own folder for temporary files.
        f"-Djava.io.tmpdir={tempfile.gettempdir()}",
        f"-XX:ErrorFile={tempfile.gettempdir()}/hs_err_%p.log",
        "-XX:-UsePerfData",
        # A signal ends the process at once: there is nothing to save, and Java's own handling would meet Python's.
        "-Xrs",
        f"-Djava.library.path={libraries}",
        "--enable-native-access=ALL-UNNAMED",
        classpath=[str(jar) for jar in libraries.glob("*.jar")],
        convertStrings=False,
    )
    runner = jpype.JClass("software.amazon.dynamodb.services.local.main.ServerRunner")
    server = runner.createServerFromCommandLineArgs(["-inMemory", "-disableTelemetry", "-port", port])
    field = server.getClass().getDeclaredField("server")
    field.setAccessible(True)
    for connector in field.get(server).getConnectors():
        connector.setHost("127.0.0.1")
    server.start()
    server.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
