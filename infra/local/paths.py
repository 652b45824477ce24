"""Where things lie: the repository, what is installed for it, and the state of one local cloud."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INFRA = REPOSITORY / "infra"
LOCAL = INFRA / "local"
RECORDER = LOCAL / "recorder"

# Everything that the repository brings onto the machine, beside .venv and infra/node_modules; ignored by git.
TOOLS = REPOSITORY / ".logflume" / "tools"
LOCALSTACK = TOOLS / "localstack"
LAMBDA_RUNTIME = TOOLS / "lambda-runtime"
DYNAMODB_LOCAL = TOOLS / "dynamodb-local"
OPENSEARCH = TOOLS / "opensearch"
BROUGHT_JAVA = TOOLS / "java"

NODE_MODULES = INFRA / "node_modules"
CDK = NODE_MODULES / ".bin" / "cdk"
KINESIS_LOCAL = NODE_MODULES / "kinesis-local"

UV = REPOSITORY / ".venv" / "bin" / "uv"
PYTHON = REPOSITORY / ".venv" / "bin" / "python"
