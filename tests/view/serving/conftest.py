"""A server in a house of its own for each test."""

from types import SimpleNamespace

import pytest

from tests.view.serving.house import BEARER, BOUND, FILES, SECRET, Lesson, Toy, offer


@pytest.fixture
def house(request):
    """A desk with its application and a client that has the token; settings come by marker."""
    pytest.importorskip("starlette")
    from starlette.testclient import TestClient

    from regard.view.serving.access import Access
    from regard.view.serving.app import application
    from regard.view.serving.desk import Desk

    given, toy, lines = getattr(request, "param", {}), Toy(), []
    desk = Desk({"toy": offer(toy)}, {"twice": Lesson()}, lines.append, files=FILES, **given)
    access = Access(SECRET)
    app = application(desk, BOUND, access)
    client = TestClient(app, "http://127.0.0.1:8000", headers=BEARER, follow_redirects=False)
    yield SimpleNamespace(desk=desk, access=access, app=app, client=client, toy=toy, lines=lines)
    toy.go.set()
    desk.close()
