"""Every message keeps what its declaration promises."""

from __future__ import annotations

import dataclasses

import pytest

from fedrulefit.protocol import messages as m


@pytest.mark.parametrize("field", ["formula", "mechanism", "shape"])
def test_every_field_of_a_reply_is_declared(field: str) -> None:
    for cls in m.Reply.__subclasses__():
        for entry in dataclasses.fields(cls):
            if entry.name != "header":
                assert field in entry.metadata, f"{cls.__name__}.{entry.name}"
                assert field == "shape" or entry.metadata[field], f"{cls.__name__}.{entry.name}"
