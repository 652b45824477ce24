"""All experiments, in the order of the report; what comes later may be made of what came before."""

from bench.report.connections import CONNECTIONS
from bench.report.exchange import EXCHANGE
from bench.report.footprint import COLDSTART, MEMORY
from bench.report.growth import CAPACITY, COST, SCALING
from bench.report.gzip_cloud import GZIP_CLOUD
from bench.report.gzip_plain import GZIP_PLAIN
from bench.report.http_source import HTTP_SOURCE
from bench.report.interruption import CRASH, RESUME
from bench.report.speed import PIPELINE, READER, SOURCES

PUBLISHED = (EXCHANGE, GZIP_PLAIN, GZIP_CLOUD, HTTP_SOURCE, CONNECTIONS)
OURS = (RESUME, CRASH, SOURCES, READER, PIPELINE, MEMORY, COLDSTART, SCALING, CAPACITY, COST)
EXPERIMENTS = (*PUBLISHED, *OURS)
