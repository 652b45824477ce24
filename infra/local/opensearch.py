"""OpenSearch as a service: one node, its configuration and data under the cloud's home, on loopback."""

from pathlib import Path

from infra.local import paths
from infra.local.java import Java
from infra.local.service import Service, http_ok

NAME = "opensearch"
PORT_VARIABLE = "LOGFLUME_LOCAL_OPENSEARCH_PORT"
HEAP = "512m"
VECTOR_MODULE = "jdk.incubator.vector"

CONFIGURATION = """\
cluster.name: logflume-local
node.name: local
path.data: {home}/data
path.logs: {home}/logs
network.host: 127.0.0.1
http.port: {port}
transport.port: 0
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
"""

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}]%marker %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.node.name = org.opensearch.node
logger.node.level = info
"""

JVM_OPTIONS = (
    f"-Xms{HEAP}",
    f"-Xmx{HEAP}",
    f"-XX:MaxDirectMemorySize={HEAP}",
    "-Xss1m",
    # Half the CPU and two thirds of the time until it answers; peak speed is not what a local cloud is for.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Djava.locale.providers=SPI,CLDR",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
    # Without its native library it cannot ask for its user id, and so does not refuse to run as root. What else the
    # library does (locking memory, system call filters) is for production.
    "-Djna.nosys=true",
    "-Djna.noclasspath=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-Dopensearch.distribution.type=zip",
    "-Dopensearch.bundled_jdk=false",
)


def opensearch(home: Path, port: int, java: Java) -> Service:
    """Write the configuration into `home` and describe the service; data of an earlier life is used."""
    program = next(paths.OPENSEARCH.glob("opensearch-*"))
    for folder in ("config", "data", "logs", "tmp"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "config" / "opensearch.yml").write_text(CONFIGURATION.format(home=home, port=port))
    (home / "config" / "log4j2.properties").write_text(LOGGING)
    url = f"http://127.0.0.1:{port}"
    return Service(
        name=NAME,
        port=port,
        command=[
            java.executable,
            *JVM_OPTIONS,
            *([f"--add-modules={VECTOR_MODULE}"] if VECTOR_MODULE in java.modules else []),
            f"-Djava.io.tmpdir={home / 'tmp'}",
            f"-XX:ErrorFile={home / 'logs' / 'hs_err_%p.log'}",
            f"-Dopensearch.path.home={program}",
            f"-Dopensearch.path.conf={home / 'config'}",
            f"-javaagent:{program / 'agent' / 'opensearch-agent.jar'}",
            "-cp",
            f"{program / 'lib'}/*",
            "org.opensearch.bootstrap.OpenSearch",
        ],
        # HTTP answers before the shards of an earlier life are recovered: wait for them.
        healthy=lambda: http_ok(f"{url}/_cluster/health?wait_for_status=yellow&timeout=5s", timeout_s=10.0),
        directory=program,
        port_variable=PORT_VARIABLE,
    )
