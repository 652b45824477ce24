"""Requests to function URLs: bodies arrive as they were sent, and above a function's concurrency the answer is 429."""

from typing import Any

from localstack.aws.api.lambda_ import TooManyRequestsException  # type: ignore[import-not-found]
from localstack.aws.handlers.codec import ContentDecoder  # type: ignore[import-not-found]
from localstack.http import Response  # type: ignore[import-not-found]
from localstack.services.lambda_.urlrouter import FunctionUrlRouter  # type: ignore[import-not-found]

FUNCTION_URL = ".lambda-url."  # in the host's name


def hand_over_bodies_as_they_came() -> None:
    """Inflate only what is meant for AWS's own services: LocalStack inflates every gzip body."""
    original = ContentDecoder.__call__

    def decode(decoder: Any, chain: Any, context: Any, response: Any) -> None:
        if FUNCTION_URL not in context.request.host:
            original(decoder, chain, context, response)

    ContentDecoder.__call__ = decode


def throttle_as_lambda_does() -> None:
    """Answer 429 where LocalStack has 500: the function runs as often at a time as it may."""
    original = FunctionUrlRouter.handle_lambda_url_invocation

    def handle(router: Any, request: Any, **of_the_url: str) -> Any:
        try:
            return original(router, request, **of_the_url)
        except TooManyRequestsException:
            return Response('{"Message":"Rate Exceeded."}', 429, mimetype="application/json")

    FunctionUrlRouter.handle_lambda_url_invocation = handle
