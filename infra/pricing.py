"""Prices: what AWS charges for what a deployment uses, in US dollars without free tier or discounts.

us-east-1, public price pages of each service, as of `AS_OF`. The dashboard's estimate and `bench.cost` use the same.
OpenSearch itself is not in here: what it costs depends on how long logs are kept, not on how they arrive.
"""

AS_OF = "2026-11"
REGION = "us-east-1"

MILLION = 1e6
GB = 1e9  # bytes; S3, Kinesis and Firehose bill by 2^30, so an estimate is up to 7 % too high, never too low

LAMBDA_PER_GB_S = {"x86_64": 0.0000166667, "arm64": 0.0000133334}  # memory allotted x duration
LAMBDA_PER_REQUEST = 0.20 / MILLION

KINESIS_ON_DEMAND_PER_HOUR = 0.04
KINESIS_ON_DEMAND_PER_GB_IN = 0.08
KINESIS_ON_DEMAND_PER_GB_OUT = 0.04  # each consumer; there is one, the indexer
KINESIS_PER_SHARD_HOUR = 0.015
KINESIS_PER_PUT_UNIT = 0.014 / MILLION
KINESIS_PUT_UNIT_BYTES = 25_600  # of one record, rounded up
# Records kept for over 24 hours and up to seven days; what is kept longer is not priced here.
KINESIS_EXTENDED_PER_GB_MONTH = 0.10  # on-demand
KINESIS_EXTENDED_PER_SHARD_HOUR = 0.020  # provisioned, on top of the shard

SQS_PER_REQUEST = 0.40 / MILLION  # standard queue; a request is up to 64 KiB and 10 messages

DYNAMODB_PER_WRITE_UNIT = 0.625 / MILLION  # on demand; a unit is 1 KiB of the item
DYNAMODB_PER_READ_UNIT = 0.125 / MILLION  # on demand; a unit is 4 KiB of the item, read consistently
DYNAMODB_PER_GB_MONTH = 0.25 + 0.20  # stored, and with point-in-time recovery

S3_PER_GET = 0.0004 / 1_000

CLOUDWATCH_LOGS_PER_GB = 0.50  # ingested
CLOUDWATCH_LOGS_PER_GB_MONTH = 0.03  # kept
CLOUDWATCH_PER_METRIC_MONTH = 0.30  # custom; by the hour, and only while it has values
CLOUDWATCH_PER_ALARM_MONTH = 0.10  # each metric that it looks at
CLOUDWATCH_PER_DASHBOARD_MONTH = 3.0

KMS_PER_KEY_MONTH = 1.0  # a key that is not AWS's own

# Between a function and an OpenSearch endpoint in the same region. S3, SQS, Kinesis and DynamoDB cost nothing.
TRANSFER_PER_GB = 0.01
VPC_ENDPOINT_PER_HOUR = 0.01  # interface endpoint, each availability zone; those of S3 and DynamoDB cost nothing
VPC_ENDPOINT_PER_GB = 0.01

# What others charge for the same work, for comparison.
FIREHOSE_PER_GB = 0.029  # direct put, first 500 TB a month
FIREHOSE_RECORD_BYTES = 5_120  # each record is rounded up to a multiple of it
OPENSEARCH_INGESTION_PER_OCU_HOUR = 0.24
# What one OCU takes at most with one source, a simple grok pattern and one sink (developer guide, "Scaling pipelines").
OPENSEARCH_INGESTION_OCU_BYTES_S = 2 << 20
