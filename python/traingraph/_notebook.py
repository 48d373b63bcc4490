"""What summary() of a graph gives: a text that a notebook shows as a table."""


class Summary(str):
    """A text, which has the same table in HTML."""

    _html: str

    def __new__(cls, text: str, html: str) -> "Summary":
        made = super().__new__(cls, text)
        made._html = html
        return made

    def __reduce__(self) -> tuple[type["Summary"], tuple[str, str]]:
        return Summary, (str(self), self._html)

    def _repr_html_(self) -> str:
        return self._html
