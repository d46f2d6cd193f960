"""What is sent to the server, read within bounds: bytes as they stream in, and strict JSON."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, NoReturn

from regard.view.server.errors import RefusedError
from regard.view.traces.trace import INTEGER_LIMIT

if TYPE_CHECKING:
    import starlette.requests

MAX_JSON_DEPTH = 32


async def read_body(
    request: "starlette.requests.Request", max_bytes: int, *, seconds: float = 60.0
) -> bytes:
    """All bytes of a body, of which no more than `most` are ever held."""
    held = bytearray()
    await _stream_body(request, max_bytes, seconds, held.extend)
    return bytes(held)


async def write_body(
    request: "starlette.requests.Request", file: IO[bytes], max_bytes: int, *, seconds: float = 60.0
) -> None:
    """Write a body into a file, piece by piece."""
    await _stream_body(request, max_bytes, seconds, file.write)


async def read_json_body(
    request: "starlette.requests.Request", max_bytes: int, *, seconds: float = 60.0
) -> dict[str, Any]:
    """The object that a body is, in JSON."""
    return parse_json_object(await read_body(request, max_bytes, seconds=seconds))


def parse_json_object(data: bytes) -> dict[str, Any]:
    """A JSON object in which every number is finite, every name stands once and nothing is deep."""
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique_names, parse_constant=_refuse_constant
        )
        _check_json_value(found)
    except (ValueError, RecursionError) as error:
        ours = isinstance(error, _InvalidJsonError)
        raise RefusedError(
            400, f"expected JSON, got {error if ours else 'something else'}"
        ) from None
    if not isinstance(found, dict):
        raise RefusedError(400, "expected a JSON object, got another value")
    return found


class _InvalidJsonError(ValueError):
    """JSON as the letter has it, and yet not what we take."""


async def _stream_body(
    request: "starlette.requests.Request",
    max_bytes: int,
    seconds: float,
    consume: Callable[[bytes], object],
) -> None:
    from starlette.requests import ClientDisconnect

    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > max_bytes:
        raise _too_long_error(max_bytes)
    count = 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                count += len(piece)
                if count > max_bytes:
                    raise _too_long_error(max_bytes)
                consume(piece)
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body ended before it was whole") from None


def _too_long_error(max_bytes: int) -> RefusedError:
    return RefusedError(413, f"expected a body of at most {max_bytes} bytes, got more")


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _InvalidJsonError("a name twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _InvalidJsonError(f"{name}, which is not finite")


def _check_json_value(value: Any, depth: int = 0) -> None:
    """Refuse what would trouble whoever reads it: depth, infinity, half a character."""
    if depth > MAX_JSON_DEPTH:
        raise _InvalidJsonError(f"more than {MAX_JSON_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise _InvalidJsonError("a number that is not finite")
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        raise _InvalidJsonError("a whole number of 2^63 or more")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise _InvalidJsonError("half a character")
    if isinstance(value, dict):
        for name, inner in value.items():
            _check_json_value(name, depth)
            _check_json_value(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json_value(inner, depth + 1)
