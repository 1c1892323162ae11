"""One of a thing is not several."""

from sglab.words import plural


def test_one_is_singular_and_all_else_plural() -> None:
    assert [plural(count, "page") for count in (0, 1, 2, 1024)] == ["0 pages", "1 page", "2 pages", "1,024 pages"]
    assert [plural(count, "pass", "passes") for count in (1, 2)] == ["1 pass", "2 passes"]
