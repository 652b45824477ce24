"""All experiments, in the order of the report; what comes later may be made of what came before."""

from bench.report.ours import OURS
from bench.report.published import PUBLISHED

EXPERIMENTS = (*PUBLISHED, *OURS)
