"""Parts of a page that scripts write, between two markers."""

from __future__ import annotations

from collections.abc import Mapping


def fill_parts(page: str, text: str, parts: Mapping[str, str]) -> str:
    """Return `text` with what stands between a part's two markers replaced.

    The markers of the part NAME are ``<!-- NAME:start -->`` and
    ``<!-- NAME:end -->``; `page` names the text where they are missing.
    """
    for name, part in parts.items():
        start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{page} lacks the markers {start} and {end}")
        text = f"{before}{start}\n\n{part}\n\n{end}{after}"
    return text
