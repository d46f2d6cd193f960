"""What is wrong with an answer."""


class Wrong(Exception):  # noqa: N818, it is a finding and no error of the program
    """What is wrong with an answer, in one line."""
