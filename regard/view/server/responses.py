"""Answers: JSON that is never stored, arrays that never change, and refusals in a sentence."""

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import starlette.responses

# An id is never given to two traces, so what it names never changes.
PIECE_BYTES = 2**20
_CACHE_FOREVER = "private, max-age=86400, immutable"


def json_response(value: Any, status: int = 200) -> "starlette.responses.Response":
    """A value in JSON."""
    return json_text_response(
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode(), status
    )


def json_text_response(text: bytes, status: int = 200) -> "starlette.responses.Response":
    """A value that is JSON already."""
    return _response(text, status, "application/json", {"cache-control": "no-store"})


def array_response(data: bytes) -> "starlette.responses.Response":
    """The bytes of an array."""
    return _response(data, 200, "application/octet-stream", {"cache-control": _CACHE_FOREVER})


def download_response(data: bytes, media_type: str, name: str) -> "starlette.responses.Response":
    """A file to be saved under this name."""
    from starlette.responses import StreamingResponse

    told = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{name}"'}
    told["content-length"] = str(len(data))
    # in pieces, each once there is room for it, so that the whole is not held twice
    return StreamingResponse(_pieces(data), 200, told, media_type)


async def _pieces(data: bytes) -> AsyncIterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]


def error_response(status: int, sentence: str) -> "starlette.responses.Response":
    """No, and why; after a body that was not read, the line cannot be used again."""
    answer = json_response({"error": sentence}, status)
    if status in (408, 413):
        answer.headers["connection"] = "close"
    return answer


def empty_response() -> "starlette.responses.Response":
    """Done, and nothing to tell."""
    return _response(b"", 204, None, {})


def _response(
    data: bytes, status: int, media_type: str | None, headers: dict[str, str]
) -> "starlette.responses.Response":
    from starlette.responses import Response

    return Response(data, status, headers, media_type)
