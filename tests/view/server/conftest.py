"""A server in a house of its own for each test."""

from types import SimpleNamespace

import pytest

from tests.view.server.house import BEARER, BOUND, FILES, SECRET, Lesson, Toy, offer


@pytest.fixture
def house(request):
    """A server's state and application, and a client with the token; settings come by marker."""
    pytest.importorskip("starlette")
    from starlette.testclient import TestClient

    from regard.view.server.access import Access
    from regard.view.server.app import build_app
    from regard.view.server.app_state import AppState

    given, toy, lines = getattr(request, "param", {}), Toy(), []
    state = AppState(
        {"toy": offer(toy)}, {"twice": Lesson()}, lines.append, page_files=FILES, **given
    )
    access = Access(SECRET)
    app = build_app(state, BOUND, access)
    client = TestClient(app, "http://127.0.0.1:8000", headers=BEARER, follow_redirects=False)
    yield SimpleNamespace(state=state, access=access, app=app, client=client, toy=toy, lines=lines)
    toy.go.set()
    state.close()
