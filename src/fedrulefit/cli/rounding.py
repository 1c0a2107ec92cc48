"""``fedrulefit round``: a model file that may be published."""

from __future__ import annotations

from typing import Annotated

import typer

from fedrulefit.cli.console import check_writable, friendly_errors, line, stdout
from fedrulefit.cli.options import ModelArgument, ModelOption
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.model import Model
from fedrulefit.model.publish import tell_changes

EPILOG = "Example: fedrulefit round model.json -o rounded.json --multiple 5 --smallest 11"


@friendly_errors()
def round_file(
    model: ModelArgument,
    output: ModelOption,
    multiple: Annotated[
        int, typer.Option(help="Counts become multiples of this.", min=1, max=1000)
    ] = PUBLISHED.multiple,
    smallest: Annotated[
        int, typer.Option(help="Smaller counts are not told.", min=0, max=1000)
    ] = PUBLISHED.smallest,
) -> None:
    """Round the counts, coefficients and importances of a model, to publish it.

    For models with exact counts, and for files that were made before counts were rounded.
    Nothing gets finer than it is. Says what changed: terms that left, and how far risks move.

    Example: fedrulefit round model.json -o rounded.json --multiple 5 --smallest 11
    """
    check_writable(output)
    exact = Model.load(model)
    rounded = exact.rounded(multiple, smallest)
    rounded.save(output)
    words = rounded.rounding.words() if rounded.rounding else ""
    for told in (f"Wrote {output}: counts are {words}.", *tell_changes(exact, rounded)):
        stdout().print(line(told))
