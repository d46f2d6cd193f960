"""What is sent to the server, read within bounds: bytes as they stream in, and strict JSON."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, NoReturn

from regard.view.serving.refusing import RefusedError
from regard.view.trace import LARGEST_WHOLE

if TYPE_CHECKING:
    import starlette.requests

DEEPEST = 32


async def body(request: "starlette.requests.Request", most: int, *, seconds: float = 60.0) -> bytes:
    """All bytes of a body, of which no more than `most` are ever held."""
    held = bytearray()
    await _fed(request, most, seconds, held.extend)
    return bytes(held)


async def spooled(
    request: "starlette.requests.Request", file: IO[bytes], most: int, *, seconds: float = 60.0
) -> None:
    """Write a body into a file, piece by piece."""
    await _fed(request, most, seconds, file.write)


async def json_body(
    request: "starlette.requests.Request", most: int, *, seconds: float = 60.0
) -> dict[str, Any]:
    """The object that a body is, in JSON."""
    return parsed(await body(request, most, seconds=seconds))


def parsed(data: bytes) -> dict[str, Any]:
    """A JSON object in which every number is finite, every name stands once and nothing is deep."""
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant
        )
        _refuse_strange(found)
    except (ValueError, RecursionError) as error:
        ours = isinstance(error, _StrangeError)
        raise RefusedError(
            400, f"expected JSON, got {error if ours else 'something else'}"
        ) from None
    if not isinstance(found, dict):
        raise RefusedError(400, "expected a JSON object, got another value")
    return found


class _StrangeError(ValueError):
    """JSON as the letter has it, and yet not what we take."""


async def _fed(
    request: "starlette.requests.Request",
    most: int,
    seconds: float,
    take: Callable[[bytes], object],
) -> None:
    from starlette.requests import ClientDisconnect

    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise _too_long(most)
    count = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                count += len(piece)
                if count > most:
                    raise _too_long(most)
                take(piece)
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body ended before it was whole") from None


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, f"expected a body of at most {most} bytes, got more")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _StrangeError("a name twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _StrangeError(f"{name}, which is not finite")


def _refuse_strange(value: Any, depth: int = 0) -> None:
    """Refuse what would trouble whoever reads it: depth, infinity, half a character."""
    if depth > DEEPEST:
        raise _StrangeError(f"more than {DEEPEST} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise _StrangeError("a number that is not finite")
    if isinstance(value, int) and abs(value) >= LARGEST_WHOLE:
        raise _StrangeError("a whole number of 2^63 or more")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise _StrangeError("half a character")
    if isinstance(value, dict):
        for name, inner in value.items():
            _refuse_strange(name, depth)
            _refuse_strange(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _refuse_strange(inner, depth + 1)
