"""What the page says of the study's wishes, and of edits."""

from __future__ import annotations

from fedrulefit.model import Model
from fedrulefit.model.wishes import PRICE, PRICE_NOTE, UNPRICED, tell_price


def list_wishes(model: Model) -> list[tuple[str, str]]:
    """Return each wish, and what became of it and what it costs, in words; edits after them."""
    rows = []
    for wish in model.wishes:
        price = tell_price(wish)
        told = f"{wish.fate}; {PRICE} {price}" if price else wish.fate
        rows.append((f"{wish.kind[0].upper()}{wish.kind[1:]}: {wish.text}", told))
    return [*rows, *(("After the fit", edit.words()) for edit in model.edits)]


def tell_prices(model: Model) -> str:
    """Return what the prices mean, or how to get them."""
    if not model.wishes:
        return ""
    return PRICE_NOTE if any(wish.price is not None for wish in model.wishes) else UNPRICED
