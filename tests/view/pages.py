"""Reading a page back, as a browser would."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """A page as nested lists [name, attributes, children]; what is opened must be closed."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.root: list = ["document", {}, []]
        self.path = [self.root]
        self.found: list[list] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()
        assert self.path == [self.root]

    def handle_startendtag(self, tag, attrs):
        self.found.append([tag, dict(attrs), []])
        self.path[-1][2].append(self.found[-1])

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "link"):
            self.path.append(self.found[-1])

    def handle_endtag(self, tag):
        assert self.path.pop()[0] == tag

    def handle_data(self, data):
        self.path[-1][2].append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    def texts(self, tag: str, **attributes: str | None) -> list[str]:
        """The texts of all elements of this name that have these attributes."""
        return [
            text(element)
            for element in self.found
            if element[0] == tag and attributes.items() <= element[1].items()
        ]


def text(element: list) -> str:
    return "".join(c if isinstance(c, str) else text(c) for c in element[2])
